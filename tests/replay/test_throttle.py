"""The rate of a replay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.fake_clients import FakeClock
from worker.stream.run_bounds import RateThrottle

rates = st.one_of(st.none(), st.floats(0.5, 1000))


@given(
    rates,
    rates,
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 5000), st.floats(0, 20)), max_size=20),
)
def test_no_more_than_the_rates_over_the_long_run(
    events_per_s: float | None, bytes_per_s: float | None, reads: list[tuple[int, int, float]]
) -> None:
    """But for what was not used for a second."""
    clock = FakeClock()
    throttle = RateThrottle(events_per_s, bytes_per_s, clock)
    began, events, size = clock.now_s, 0, 0
    for count, length, busy_s in reads:
        seconds = throttle.pause(count, length)
        assert seconds >= 0
        clock.sleep(seconds)
        events, size = events + count, size + length
        passed = clock.now_s - began + 1.0
        assert events_per_s is None or events <= events_per_s * passed * (1 + 1e-6) + 1e-3
        assert bytes_per_s is None or size <= bytes_per_s * passed * (1 + 1e-6) + 1e-3
        clock.sleep(busy_s)


def test_at_once_is_what_may_be_read_in_a_quarter_of_a_second() -> None:
    throttle = RateThrottle(400, 8000)
    assert (throttle.is_on, throttle.events_at_once, throttle.bytes_at_once) == (True, 100, 2000)
    slow = RateThrottle(0.01, None)
    assert (slow.is_on, slow.events_at_once, slow.bytes_at_once) == (True, 1, None)
    none = RateThrottle(None, None)
    assert (none.is_on, none.events_at_once, none.bytes_at_once) == (False, None, None)
