"""What was right after every event of a stream, and how much of what a contender said was.

A stream's sentences are its rows: row t is added by event t under the id `%08d` of t, so that the
order of the rows is the order of the ids and ties fall the same way everywhere.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.coversumm import Points, Step, no_points
from worker.coversumm.core import Ranking

History = list[NDArray[np.int64]]  # after each event, the rows of the nearest in order


def id_of(row: int) -> bytes:
    return b"%08d" % row


def added(vectors: NDArray[np.int16], start: int = 0) -> list[Step]:
    """One event a row; the first of `vectors` is row `start` of the stream."""
    none = no_points(vectors.shape[1])
    return [
        Step(none, Points((id_of(start + t),), vectors[t : t + 1])) for t in range(len(vectors))
    ]


def removed(vectors: NDArray[np.int16], rows: Sequence[int]) -> list[Step]:
    """Events that each take one row away again."""
    none = no_points(vectors.shape[1])
    return [Step(Points((id_of(row),), vectors[row : row + 1]), none) for row in rows]


def brute_force(vectors: NDArray[np.int16], k: int) -> History:
    """All keys at every event, exact (they are integers below 2^53), equal ones by row."""
    x = vectors.astype(np.float64)
    squared = np.einsum("ij,ij->i", x, x)
    total = np.zeros(x.shape[1])
    history = []
    for t in range(len(x)):
        total += x[t]
        n = t + 1
        history.append(_nearest(n * squared[:n] - 2.0 * (x[:n] @ total), k, n))
    return history


def brute_force_removing(vectors: NDArray[np.int16], rows: Sequence[int], k: int) -> History:
    """The same when all rows are there and `rows` go one an event: the history of the removals."""
    x = vectors.astype(np.float64)
    squared = np.einsum("ij,ij->i", x, x)
    total = x.sum(axis=0)
    gone = np.zeros(len(x), np.bool_)
    history = []
    for done, row in enumerate(rows, 1):
        total -= x[row]
        gone[row] = True
        n = len(x) - done
        history.append(_nearest(np.where(gone, np.inf, n * squared - 2.0 * (x @ total)), k, n))
    return history


def _nearest(keys: NDArray[np.float64], k: int, live: int) -> NDArray[np.int64]:
    k = min(k, live)
    near = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1]) if k else np.arange(0)
    return near[np.argsort(keys[near], kind="stable")][:k]


def rows_named(what: object) -> list[int]:
    """The rows a contender named, as a ranking, as ids or as rows."""
    return [int(id_) for id_ in (what.ids if isinstance(what, Ranking) else what)]  # type: ignore[attr-defined]


def right_steps(said: Sequence[object], oracle: History, before: Sequence[object] = ()) -> int:
    """Events after which the oracle's sentences were named in the oracle's order: one wrong place
    is a wrong event.

    None stands for "the set did not change and no member was added", as `EntityCore.apply` means
    it: right if the oracle's set is the one last named. `before` is what was said before the first
    of these events.
    """
    right = 0
    shown = set(next((rows_named(what) for what in reversed(before) if what is not None), ()))
    for what, truth in zip(said, oracle, strict=True):
        wanted = truth.tolist()
        if what is None:
            right += shown == set(wanted)
            continue
        rows = rows_named(what)
        shown = set(rows)
        right += rows == wanted
    return right


def percent(right: int, steps: int) -> float:
    """Of the steps, to four decimals; 100.0 means all of them, never nearly all."""
    return 100.0 if right == steps else min(round(100.0 * right / steps, 4), 99.9999)
