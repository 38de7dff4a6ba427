"""Trends: counts that add up to the mentions, and complaints that rose by more than chance."""

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import DIMENSION, Driver, config, upsert
from tests.processing.facet_runs import runs, with_facets
from tests.processing.operations import ENTITIES
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.processing.entities import EntityKey
from worker.processing.entity_view import FacetsView, NoFacets, read_view
from worker.processing.trend import Trend, fisher

NOISE = facet_criteria(
    Definitions(
        [Facet(name, rating=RatingRange(min=1), words=(name,)) for name in ("loud", "bed")]
    ),
    DIMENSION,
    None,
)


def read(driver, key=(0, "e"), kind=None):
    return read_view(driver.rows[key[0]], EntityKey(*key), kind or Trend(), driver.config)


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_the_exact_test_is_the_sum_of_its_tables(numbers):
    recent, more_recent, before, more_before = numbers
    of_recent, of_before = recent + more_recent, before + more_before
    marked = recent + before
    tables = sum(
        comb(of_recent, found) * comb(of_before, marked - found)
        for found in range(recent, marked + 1)
    )
    expected = Fraction(tables, comb(of_recent + of_before, marked))
    assert fisher(recent, of_recent, before, of_before) == expected


@settings(max_examples=80, deadline=None)
@given(runs(), st.sampled_from(["month", "quarter"]))
def test_the_counts_of_a_facet_are_its_mentions(batches, by):
    driver = Driver(with_facets())
    for _, batch in batches:
        driver.run_whole(*batch)
    for key in enumerate(ENTITIES):
        trend = read(driver, key, Trend(by))
        view = read(driver, key, FacetsView)
        assert (trend is None) == (view is None)
        if trend is None or view is None:
            continue
        mentions = {facet.name: facet.mentions for facet in view.facets if facet.mentions}
        assert [facet.name for facet in trend.facets] == sorted(
            mentions, key=lambda name: (-mentions[name].review_count, name)
        )
        for facet in trend.facets:
            counts = sum(period.review_count for period in facet.periods)
            assert counts + facet.undated == mentions[facet.name].review_count
            if not facet.undated:
                rated = sum(period.ratings.count for period in facet.periods)
                assert rated == mentions[facet.name].ratings.count


def complained(recent, of_recent, before, of_before, text="It is loud"):
    """An entity with so many complaints among its reviews of the last 90 days, and before."""
    driver = Driver(config(facets=NOISE, facets_topic="facets"))
    events = []
    for count, of, day in ((recent, of_recent, "2026-11-20"), (before, of_before, "2026-06-20")):
        # what is older than the 365 days does not count
        reviews = [(text, 2, "2025-08-01"), *[(text, 2, day)] * count]
        for said, rating, date in [*reviews, *[("It is a bed", 5, day)] * (of - count)]:
            fields = {"rating": rating, "occurred_at": f"{date}T12:00:00Z"}
            events.append(upsert(len(events), f"r{len(events)}", said, **fields))
    driver.run_whole(*events)
    return driver


def complaints(*counts):
    trend = read(complained(*counts))
    (loud,) = [facet.complaints for facet in trend.facets if facet.name == "loud"]
    return loud


@pytest.mark.parametrize(
    ("counts", "rose", "may_have_risen"),
    [
        ((12, 30, 2, 60), True, True),
        ((5, 15, 0, 40), True, True),
        ((5, 14, 0, 40), None, None),  # too few reviews
        ((5, 15, 0, 39), None, None),
        ((4, 15, 0, 40), False, False),  # four complaints are too few
        ((6, 20, 5, 60), False, True),
        ((6, 40, 6, 60), False, False),  # exactly half more, by chance
        ((7, 20, 5, 60), False, True),  # one chance in 123, of two facets
        ((120, 300, 160, 600), True, True),  # exactly half more, by one chance in 27,000
        ((120, 300, 170, 600), False, False),  # less than half more
    ],
)
def test_complaints_rose_if_chance_does_not_explain_them(counts, rose, may_have_risen):
    found = complaints(*counts)
    assert (found.recent, found.before) == (counts[0], counts[2])
    assert (found.rose, found.may_have_risen) == (rose, may_have_risen)


def test_without_facets_or_with_another_period_it_is_refused():
    driver = Driver()
    driver.run(upsert(0, "r", "one"))
    with pytest.raises(NoFacets):
        read(driver)
    with pytest.raises(ValueError, match="by is month or quarter"):
        Trend("week")


def test_periods_are_of_the_reviews_own_dates_in_utc():
    driver = Driver(config(facets=NOISE, facets_topic="facets"))
    dates = ["2025-12-31T23:30:00-01:00", "2026-01-05T00:00:00Z", None, "9999-01-01T00:00:00Z"]
    for offset, date in enumerate(dates):
        driver.run(upsert(offset, f"r{offset}", "loud", rating=offset + 1, occurred_at=date))
    (loud, _) = read(driver).facets
    ((period),) = loud.periods
    assert (period.period, period.review_count, period.ratings.mean) == ("2026-01", 2, 1.5)
    assert loud.undated == 2
    assert read(driver, kind=Trend("quarter")).facets[0].periods[0].period == "2026-Q1"
