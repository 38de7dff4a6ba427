"""The newest reviews are the first of all live ones in their order, after any changes."""

from hypothesis import given
from hypothesis import strategies as st

from worker.facets.newest import NewestReviews, recency

DATES = [
    None,
    "2026-11-20T12:00:00Z",
    "2026-11-20T12:00:00.5Z",
    "2026-11-20T12:00:00.45Z",
    "2026-11-20T14:00:00+02:00",
    "2027-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
]
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
        ordered = sorted(live, key=lambda one: (recency(live[one]), one))
        edge = newest.edge(wanted, wanted)
        assert [name for _, name in edge.items] == ordered[:wanted]
        for name, when in live.items():
            assert edge.has((recency(when), name)) == (name in ordered[:wanted])


def test_later_first_then_undated():
    order = sorted(DATES, key=recency)
    assert order == [
        "2027-01-01T00:00:00Z",
        "2026-11-20T12:00:00.5Z",
        "2026-11-20T12:00:00.45Z",
        "2026-11-20T12:00:00Z",
        "2026-11-20T14:00:00+02:00",
        "0000-01-01T00:00:00Z",
        None,
    ]
