"""The growing array is a list of rows, whatever is done to it, and gives up the room it says it
gives up.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worker.coversumm.matrix import FEW, FIRST, GrowingArray

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "extend", "push", "remove", "keep", "clear"]),
        st.integers(0, 40),
    )
)


@settings(max_examples=200, deadline=None)
@given(CHANGES, st.sampled_from([None, 1, 3]))
@example([("append", 4), ("remove", 0), ("push", 0)], 3)
def test_it_is_a_list_of_rows(changes: list[tuple[str, int]], width: int | None) -> None:
    array, rows, fresh = GrowingArray(np.int16, width), [], iter(range(10**6))
    for change, number in changes:
        if change in ("append", "extend"):
            more = [[next(fresh)] * width if width else next(fresh) for _ in range(number)]
            if change == "append":
                array.append(np.array(more, np.int16).reshape(-1, *([width] if width else [])))
            else:
                array.extend(number)
                for at, row in enumerate(more, len(rows)):
                    array.rows[at] = row
            rows += more
        elif change == "push":
            rows.append([next(fresh)] * width if width else next(fresh))
            array.push(np.array(rows[-1], np.int16))
        elif change == "remove" and rows:
            row = number % len(rows)
            array.remove(row)
            rows[row] = rows[-1]
            rows.pop()
        elif change == "keep":
            chosen = np.arange(len(rows))[::-1][::2]
            array.keep(chosen)
            rows = [rows[at] for at in chosen.tolist()]
        elif change == "clear":
            array.clear()
            rows = []
        assert array.rows.tolist() == rows
        assert len(array) == len(rows)
        assert array.nbytes >= array.rows.nbytes


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


@pytest.mark.parametrize("contiguous", [True, False])
def test_rows_are_taken_over_without_a_copy_if_they_are_contiguous(contiguous: bool) -> None:
    rows = np.arange(12, dtype=np.int16).reshape(4, 3)
    given_ = rows if contiguous else rows.T
    array = GrowingArray.of(given_)
    assert array.rows.tolist() == given_.tolist()
    assert np.shares_memory(array.rows, rows) == contiguous
    array.append(given_[:1])
    array.remove(0)
    assert array.rows[0].tolist() == given_[0].tolist()
    assert rows.tolist() == np.arange(12).reshape(4, 3).tolist()
