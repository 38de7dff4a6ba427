"""The line to go on from: all before it were acknowledged, in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from worker.operations.file_sending import Acknowledged


@given(st.data())
def test_all_before_the_next_line_are_acknowledged(data):
    lines = sorted(data.draw(st.sets(st.integers(1, 1000), min_size=1)))
    order = data.draw(st.permutations(lines))
    done = order[: data.draw(st.integers(0, len(order)))]
    acknowledged = Acknowledged()
    for line in lines:
        acknowledged.expect(line)
    for line in done:
        acknowledged.add(line)
    waiting = [line for line in lines if line not in done]
    assert acknowledged.next_line == (waiting[0] if waiting else lines[-1] + 1)
    assert acknowledged.beyond == sum(line > acknowledged.next_line for line in done)


def test_nothing_was_sent():
    assert Acknowledged().next_line == 0
