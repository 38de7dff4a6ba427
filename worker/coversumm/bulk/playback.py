"""The changes of a run carried out on the reservoir step after step, and the id of each candidate as they go."""

from collections import deque

import numpy as np

from worker.coversumm.bulk.candidates import Candidates
from worker.coversumm.bulk.changes import RowChanges
from worker.coversumm.reservoir import Reservoir


class Playback:
    """`ids` are those of the candidates after the last step carried out; an absent candidate's means nothing."""

    def __init__(self, reservoir: Reservoir, changes: RowChanges, candidates: Candidates) -> None:
        self._reservoir = reservoir
        self._pending = deque(changes.one_by_one() if candidates.since is None else ())
        self._rows = candidates.rows.tolist()
        self._slices: dict[int, tuple[int, int]] = {}  # a row -> its first candidate, and how many
        self._copies = candidates.since is None
        if not self._copies:  # a candidate's id is the same whenever it is there: carry out all changes first
            # Those after the last step do no harm: a refill follows then, and makes another reservoir.
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
        """Carry out the changes up to a step; the step at which the reservoir is exhausted, if it is."""
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
        """The copies of the vector of each of these candidates."""
        if not self._copies:
            return (1,) * len(candidates)
        counts, rows = self._reservoir.counts, self._rows
        return tuple([counts[rows[candidate]] for candidate in candidates])
