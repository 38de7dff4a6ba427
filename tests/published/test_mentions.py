"""How often a facet is mentioned, in its history and its summary on a terminal."""

import json

from tests.harness.drive import DIMENSION, Driver, FakeEngine, config, upsert
from worker.cli.inspect import _title
from worker.events import Record
from worker.events.publishing import FACETS
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.published.history import PublishedChange, last_steps
from worker.published.publication import publications

CRITERIA = facet_criteria(
    Definitions(
        [
            Facet("fans", rating=RatingRange(min=4), words=("good",)),
            Facet("all", rating=RatingRange(min=0)),
        ]
    ),
    DIMENSION,
    FakeEngine().embed,
)


def test_the_history_has_mentions_of_facets_with_words():
    driver = Driver(config(facets=CRITERIA, facets_topic="facets"))
    events = [
        upsert(0, "a", sentences=["good"], rating=5),
        upsert(1, "b", sentences=["fine"], rating=5),
        upsert(2, "c", sentences=["good", "bad"], rating=1),
        upsert(3, "d", sentences=["bad good"], rating=4),
    ]
    values = [message for message in driver.run(*events).messages if message.topic == "facets"]
    records = [
        Record("facets", 0, offset, 0, message.key, message.value)
        for offset, message in enumerate(values)
    ]
    found = [change for record in records for change in publications(record, kind=FACETS)]
    changes = [PublishedChange.of(step) for step in last_steps(found, None)]
    assert [change.mention_count for change in changes if change.facet == "fans"] == [1, 1, 2]
    assert {change.mention_count for change in changes if change.facet == "all"} == {None}
    (fans,) = [facet for facet in json.loads(values[-1].value)["facets"] if facet["name"] == "fans"]
    assert _title(fans) == "fans: 3 sentences, 3 reviews, ratings 3, mean 4.67, 2 mentions"
