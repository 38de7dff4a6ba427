"""The newest reviews are the first of all live ones in their order, after any changes."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from worker.facets.newest import NewestReviews, recency

DATES = [
    None,
    "2026-10-09T12:00:00Z",  # 42 days before the next
    "2026-11-20T12:00:00Z",
    "2026-11-20T12:00:00.5Z",
    "2026-11-20T12:00:00.45Z",
    "2026-11-20T14:00:00+02:00",
    "2027-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
]


def instant(date):
    """Exact seconds, from a date of which Python knows the year."""
    if date.startswith("0000"):
        return instant("0400" + date[4:]) - 146_097 * 86_400
    moment = datetime.fromisoformat(date) - datetime(1970, 1, 1, tzinfo=UTC)
    return Fraction(moment // timedelta(microseconds=1), 10**6)


dated = st.sampled_from(DATES)
changes = st.lists(st.tuples(st.integers(0, 14), st.one_of(st.just("gone"), dated)), max_size=60)


@given(wanted=st.integers(1, 3), changes=changes)
def test_the_first_of_all_live_reviews(wanted, changes):
    live = {}
    newest = NewestReviews(wanted)
    for number, date in changes:
        name = b"%d" % number
        if name in live:
            newest.remove(name, live.pop(name))
        if newest.is_short:
            newest = NewestReviews(wanted, live.items())
        if date != "gone":
            live[name] = date
            newest.add(name, date)
        ordered = sorted(live, key=lambda review: (recency(live[review]), review))
        end = newest.end(wanted, None)
        for name, when in live.items():
            assert ((recency(when), name) < end) == (name in ordered[:wanted])
        assert sorted(name for _, name in newest.between((b"", b""), end)) == sorted(
            ordered[:wanted]
        )


@given(dates=st.lists(dated, min_size=1, max_size=8), days=st.sampled_from([1, 41, 42, 43, 10**4]))
def test_within_days_of_the_newest_review(dates, days):
    live = {b"%d" % number: date for number, date in enumerate(dates)}
    newest = NewestReviews(10**9, live.items())
    end = newest.end(None, days)
    known = {name: instant(date) for name, date in live.items() if date is not None}
    for name, date in live.items():
        is_within = name in known and max(known.values()) - known[name] <= days * 86_400
        assert ((recency(date), name) < end) == is_within


def test_later_first_then_undated():
    order = sorted(DATES, key=recency)
    assert order == [
        "2027-01-01T00:00:00Z",
        "2026-11-20T12:00:00.5Z",
        "2026-11-20T12:00:00.45Z",
        "2026-11-20T12:00:00Z",
        "2026-11-20T14:00:00+02:00",
        "2026-10-09T12:00:00Z",
        "0000-01-01T00:00:00Z",
        None,
    ]
