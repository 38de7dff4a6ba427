"""The growing array is a list of rows, whatever is done to it, and gives up the room it says it
gives up.
"""

from __future__ import annotations

import numpy as np
import pytest

from worker.coversumm.matrix import FEW, FIRST, GrowingArray


@pytest.mark.parametrize(("rows", "spare", "times"), [(FEW, 1.25, 25), (64 * FEW, 2, 6)])
def test_room_grows_by_a_share_of_itself(rows: int, spare: float, times: int) -> None:
    array = GrowingArray(np.float64)
    assert array.nbytes == 0
    array.extend(rows // 64)
    sizes = set()
    for number in range(rows // 64, rows):
        array.push(float(number))
        sizes.add(array.nbytes)
        assert array.nbytes <= 8 * max(FIRST, spare * len(array))
    assert len(sizes) <= times  # the others found room


def test_room_is_given_up() -> None:
    array = GrowingArray(np.int16, 4)
    array.extend(8 * FIRST)
    array.clear()
    assert array.nbytes == 0
    assert array.rows.shape == (0, 4)
    array.extend(8 * FIRST + 1)
    array.keep(np.array([3, 5]))
    assert array.nbytes == 2 * 8
