"""The set after every step of a run: only steps that may have changed it are ranked."""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.bulk.candidates import Candidates, KeyMatrix
from worker.coversumm.bulk.run import RowChanges, StepRun
from worker.coversumm.ranking import Ranking
from worker.coversumm.reservoir import Reservoir
from worker.coversumm.state import EntityState


class Playback:
    """Carries out changes; `ids` are those of the candidates then, undefined for an absent one."""

    def __init__(self, reservoir: Reservoir, changes: RowChanges, candidates: Candidates) -> None:
        self._reservoir = reservoir
        self._pending = deque(changes.one_by_one() if candidates.since is None else ())
        self._rows = candidates.rows.tolist()
        self._slices: dict[int, tuple[int, int]] = {}  # a row -> its first candidate, and how many
        self._copies = candidates.since is None
        # a candidate's id is the same whenever it is there: carry out all changes first
        if not self._copies:
            # Those after the last step do no harm: a refill follows then, and makes another
            # reservoir.
            reservoir.add_new(changes.rows.tolist(), changes.ids)
            lowest_ids = reservoir.lowest_ids
            self.ids = [lowest_ids[row][0] if lowest_ids[row] else b"" for row in self._rows]
            return
        self.ids = [b""] * len(self._rows)
        rows = np.flatnonzero(candidates.most)
        slices = zip(candidates.first[rows].tolist(), candidates.most[rows].tolist(), strict=True)
        self._slices = dict(zip(rows.tolist(), slices, strict=True))
        for row in self._slices:
            self._update_ids(row)

    def _update_ids(self, row: int) -> None:
        first, most = self._slices[row]
        ids = self._reservoir.lowest_ids[row][:most]
        self.ids[first : first + len(ids)] = ids

    def advance(self, step: int) -> int | None:
        """Carry out the changes up to a step; returns the step that exhausts the reservoir, or
        None.
        """
        reservoir, pending = self._reservoir, self._pending
        while pending and pending[0][0] <= step:
            at, row, change, id_ = pending.popleft()
            if change > 0:
                reservoir.add(row, id_)
            else:
                reservoir.remove(row, id_)
            if reservoir.exhausted:
                return at
            if row in self._slices:
                self._update_ids(row)
        return None

    def support(self, candidates: list[int]) -> tuple[int, ...]:
        """The copies of each candidate's vector."""
        if not self._copies:
            return (1,) * len(candidates)
        counts, rows = self._reservoir.counts, self._rows
        return tuple([counts[rows[candidate]] for candidate in candidates])


LARGEST = float(np.finfo(np.float64).max)


class _Nearest(NamedTuple):
    """The nearest candidates after some steps."""

    candidates: list[list[int]]  # (s, w) up to the k-th key, ascending
    keys: list[list[float]]  # (s, w)
    counts: list[int]  # (s,) how many they are, the first of each line
    tied: list[bool]  # (s,) whether any of the keys are equal
    n: list[int]  # (s,)
    totals: NDArray[np.float64]  # (s, D) S
    centroids_squared: list[float]  # (s,) |S/n|^2


def rank(
    state: EntityState,
    run: StepRun,
    changes: RowChanges,
    candidates: Candidates,
    matrix: KeyMatrix,
    end: int,
) -> tuple[list[Ranking | None], int]:
    """Carry out and rank the steps before `end`, or fewer if the reservoir is exhausted."""
    results: list[Ranking | None] = [None] * end
    playback = Playback(state.reservoir, changes, candidates)
    steps = _possible_changes(state, candidates, matrix, changes, end)
    nearest, ids = _nearest(run, matrix, steps), state.ranked_ids
    # without copies and equal keys each of these steps but the first did change the set, or adds a
    # member
    certain = candidates.since is not None and not any(nearest.tied)
    for step, chosen, keys, count, tied, n, total, squared in zip(steps, *nearest, strict=True):
        exhausted = playback.advance(step)
        if exhausted is not None:
            return results[:exhausted], exhausted
        del chosen[count:], keys[count:]
        ids = tuple(map(playback.ids.__getitem__, chosen))
        if tied:
            ranked = sorted(zip(keys, ids, chosen, strict=True))[: state.k]
            keys, chosen = [key for key, _, _ in ranked], [candidate for _, _, candidate in ranked]
            ids = tuple(id_ for _, id_, _ in ranked)
        if (certain and step) or state.note_ranked(ids, run.steps[step].added.ids):
            results[step] = Ranking(
                ids, playback.support(chosen), n, keys, total, state.scale, squared
            )
    state.note_ranked(ids, ())
    exhausted = playback.advance(end - 1)
    return (results, end) if exhausted is None else (results[:exhausted], exhausted)


def _possible_changes(
    state: EntityState, candidates: Candidates, matrix: KeyMatrix, changes: RowChanges, end: int
) -> list[int]:
    """The steps before `end` that may have changed the set (docs/algorithm.md, Lemma 7).

    The set is a function of the candidates up to the k-th key and of their ids; if these are more
    than k, also of which candidates have the k-th key itself, where the cut is. The first step of a
    run is always included.
    """
    keys, kth_key = matrix.keys[:end], matrix.kth_key[:end, None]
    near = keys <= np.minimum(kth_key, LARGEST)
    possible = np.zeros(end, np.bool_)
    possible[:1] = True
    possible[1 + np.flatnonzero(near[1:] != near[:-1]) // max(keys.shape[1], 1)] = True
    # k at least are near where there are k: more than that in all where any are cut
    if kth_key.max(initial=0.0) == np.inf or np.count_nonzero(near) > end * state.k:
        cut = np.einsum("ij->i", near, dtype=np.int32) > state.k
        edge = keys == kth_key
        possible[1:] |= cut[1:] & np.any(edge[1:] != edge[:-1], axis=1)
    first = candidates.first[changes.rows]
    before = np.flatnonzero((first >= 0) & (changes.steps < end))
    steps = changes.steps[before]
    possible[steps[near[steps, first[before]]]] = True
    return np.flatnonzero(possible).tolist()


def _nearest(run: StepRun, matrix: KeyMatrix, steps: list[int]) -> _Nearest:
    keys = matrix.keys[steps]
    counts = (keys <= np.minimum(matrix.kth_key[steps], LARGEST)[:, None]).sum(axis=1)
    order = keys.argsort(axis=1)[:, : counts.max(initial=0)]
    keys = keys[np.arange(len(keys))[:, None], order]
    tied = np.any((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] < np.inf), axis=1)
    n, totals = run.n[steps].astype(np.int64), run.totals[steps, :-1]
    squared = run.centroid_squared[steps].tolist()
    return _Nearest(
        order.tolist(), keys.tolist(), counts.tolist(), tied.tolist(), n.tolist(), totals, squared
    )
