"""What a run does to the rows of the reservoir."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.bulk.run import Run
from worker.coversumm.reservoir import Reservoir


class RowChanges(NamedTuple):
    """Copies of vectors inside the reservoir that come and go, in order."""

    steps: NDArray[np.int64]
    rows: NDArray[np.int64]
    change: NDArray[np.int32]  # one copy more or less
    ids: list[bytes]

    def one_by_one(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Step, row, change and id of each."""
        return zip(self.steps.tolist(), self.rows.tolist(), self.change.tolist(), self.ids, strict=True)


def row_changes(reservoir: Reservoir, run: Run) -> RowChanges:
    """The points of the run that are inside; vectors new to the reservoir get rows without copies."""
    inside = np.arange(len(run.vectors))
    if reservoir.radius_key is not None:
        products = run.signed[:, :-1] @ reservoir.anchor_total
        if run.removing:
            products *= run.change
        keys = reservoir.anchor_n * run.squared_norms - 2.0 * products
        inside = np.flatnonzero(keys < reservoir.radius_key)
    rows = reservoir.rows(run.vectors[inside], run.squared_norms[inside])
    steps = run.ends.searchsorted(inside, side="right")
    ids = [run.ids[i] for i in inside.tolist()]
    return RowChanges(steps, np.array(rows, np.int64), run.change[inside], ids)
