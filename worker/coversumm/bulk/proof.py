"""The reservoir certificate for all steps of a run together (docs/algorithm.md, Lemma 4)."""

import numpy as np

from worker.coversumm import certificate
from worker.coversumm.bulk.changes import RowChanges
from worker.coversumm.bulk.keys import KeyMatrix
from worker.coversumm.bulk.run import Run
from worker.coversumm.state import EntityState


def first_unproved(state: EntityState, run: Run, matrix: KeyMatrix, changes: RowChanges) -> int:
    """The first step at which the certificate fails; m if none.

    By spans first, the drift being that to the middle and from there; by steps where that does not do.
    """
    reservoir, spans = state.reservoir, matrix.spans
    m = len(run.steps)
    if reservoir.radius_key is None:
        return m
    ball = state.ball()
    drift_squared = run.drift_squared(ball.anchor, ball.anchor_squared, spans.middles)
    drift = certificate.uppers(drift_squared, 4 * ball.slack) + spans.drift
    if certificate.proved(np.maximum.reduceat(matrix.kth_distance, spans.starts), drift, ball.radius).all():
        return m
    drift = certificate.uppers(run.drift_squared(ball.anchor, ball.anchor_squared), 4 * ball.slack)
    failed = ~certificate.proved(matrix.kth_distance, drift, ball.radius)
    if failed.any():  # a reservoir that holds every sentence needs no proof
        live = reservoir.live + np.bincount(changes.steps, weights=changes.change, minlength=m).cumsum()
        failed &= live != run.n
    return int(failed.argmax()) if failed.any() else m
