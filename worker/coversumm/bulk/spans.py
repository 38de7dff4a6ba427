"""A run cut into spans, so short that the centroid hardly moves within one: each is seen from the centroid in its middle."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import certificate
from worker.coversumm.bulk.run import Run

SPAN = 64  # steps: shorter spans cost more products than the rows they leave out save


class Spans(NamedTuple):
    """A run, SPAN steps at a time."""

    starts: NDArray[np.int64]  # (s,)
    middles: NDArray[np.int64]  # (s,)
    drift: NDArray[np.float64]  # (s,) how far the centroid is from where it is in the middle, at most


def cut(run: Run, slack: float) -> Spans:
    """The spans of a run; `slack` is that of `certificate`."""
    m = len(run.steps)
    starts = np.arange(0, m, SPAN)
    middles = np.minimum(starts + SPAN // 2, m - 1)
    centroids = run.totals[middles, :-1] / np.maximum(run.n[middles], 1.0)[:, None]
    drift_squared = run.drift_squared_in_spans(centroids, run.centroid_squared[middles], SPAN)
    drift = certificate.uppers(np.maximum.reduceat(drift_squared, starts), 4 * slack)
    return Spans(starts, middles, drift)
