"""Steps as matrices: how many are taken at once, and how far the centroids move."""

from __future__ import annotations

import numpy as np
import pytest

from tests.coversumm.scripts import adds, points
from worker.coversumm import Step
from worker.coversumm.bulk.run import lay_out, take


def step(removed: int, added: int) -> Step:
    return Step(
        points(((b"-%d" % i, (i, 0)) for i in range(removed)), 2),
        points(((b"+%d" % i, (i, 1)) for i in range(added)), 2),
    )


@pytest.mark.parametrize(
    ("sizes", "most", "taken"),
    [
        ([(0, 3), (0, 4), (0, 1), (0, 1)], 8, 3),
        ([(0, 3), (0, 4), (0, 1), (0, 1)], 9, 4),
        ([(2, 3), (1, 0), (0, 2), (4, 4)], 8, 3),
        ([(2, 3), (1, 0), (0, 2), (4, 4)], 7, 2),
        ([(0, 9), (0, 1)], 8, 1),
        ([(5, 4), (0, 1)], 8, 1),
    ],
)
def test_takes_what_fits(sizes: list[tuple[int, int]], most: int, taken: int) -> None:
    steps = [step(*size) for size in sizes]
    batches = take(steps, most)
    assert batches.steps == steps[:taken]
    run = lay_out(100, np.zeros(2), batches)
    assert run.ids == [id_ for step in steps[:taken] for batch in step for id_ in batch.ids]
    assert run.change.tolist() == [
        change for removed, added in sizes[:taken] for change in [-1] * removed + [1] * added
    ]
    assert (
        run.n.tolist()
        == (100 + np.cumsum([added - removed for removed, added in sizes[:taken]])).tolist()
    )


@pytest.mark.parametrize("m", [5, 32, 64, 70])
def test_drift_is_seen_from_each_spans_centroid(m: int) -> None:
    rng = np.random.default_rng(m)
    vectors = rng.integers(-1000, 1000, (m, 3)).astype(np.int16)
    run = lay_out(0, np.zeros(3), take(adds(vectors), m))
    centroids = rng.normal(size=(-(-m // 32), 3)) * 1000
    squared = (centroids**2).sum(axis=1)
    means = vectors.cumsum(axis=0) / np.arange(1, m + 1)[:, None]
    expected = ((means - centroids[np.arange(m) // 32]) ** 2).sum(axis=1)
    np.testing.assert_allclose(
        run.drift_squared_in_spans(centroids, squared, 32), expected, rtol=1e-9
    )
    np.testing.assert_allclose(
        run.drift_squared(centroids[0], squared[0], slice(1, m, 2)),
        ((means[1::2] - centroids[0]) ** 2).sum(axis=1),
        rtol=1e-9,
    )
