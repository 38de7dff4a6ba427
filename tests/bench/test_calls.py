"""What a nightly job costs: every product that has a review yet, or those with a new one."""

from tests.bench.calls import nightly
from tests.bench.quality.data import TextReview


def test_calls_of_a_nightly_job() -> None:
    days = {"a": ["01", "01", "03"], "b": ["04"]}
    reviews = [
        TextReview(entity, "", None, f"2026-11-{day}T12:00:00Z")
        for entity, of in days.items()
        for day in of
    ]
    every_night, if_new = nightly(reviews)
    assert every_night == 4 + 1  # a from the first to the fourth, b on the fourth
    assert if_new == 2 + 1
