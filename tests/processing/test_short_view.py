"""An entity's short view by its rows: the definition over real reviews, how far it goes, and
entities of every unkind form.
"""

from __future__ import annotations

import pytest

from tests.cli.events import lines, sample
from tests.coversumm.naive_short_view import naive
from tests.harness.drive import DIMENSION, Driver, config, delete, delete_entity, upsert
from worker.events import Record, read_line
from worker.processing.entities import EntityKey
from worker.processing.entity_view import Extent, ShortView, fitting, read_view
from worker.state.entity import EntityRows, read_header
from worker.state.keys import review_of


def short(driver, entity_id="e", **extent):
    key = EntityKey(0, entity_id)
    return read_view(driver.rows[0], key, ShortView, driver.config, Extent(**extent))


def stored(driver, entity_id):
    """Vectors by sentence id."""
    rows = driver.rows[0]
    header = read_header(rows, entity_id.encode())
    entity = EntityRows(rows, entity_id.encode(), header.incarnation, DIMENSION)
    return {
        block.id(row): block.vectors[row] for block in entity.blocks() for row in range(len(block))
    }


@pytest.fixture(scope="module", params=["reviews", "texts"])
def stays(request):
    """Real reviews, of which some were edited and some taken down."""
    driver = Driver(config(limits={"model": None}, by_text=request.param == "texts"))
    events = sample(600)
    for at, line in enumerate(lines([*events, *events[5:20], *map(delete_of, events[30:200:3])])):
        driver.run(Record("reviews", 0, at, 0, *read_line(line)))
    return driver, sorted({event["entity_id"] for event in events})


def delete_of(event):
    return {
        "type": "review.deleted",
        "entity_id": event["entity_id"],
        "review_id": event["review_id"],
    }


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.999])
@pytest.mark.parametrize("count", [1, 100])
def test_of_real_reviews_it_is_the_definition(stays, threshold, count):
    driver, entities = stays
    for entity_id in entities:
        live = stored(driver, entity_id)
        view = short(driver, entity_id, sentences=count, threshold=threshold)
        ids, counts = naive(live, threshold, count, by_text=driver.config.by_text)
        assert [sentence.sentence_id.encode() for sentence in view.sentences] == ids
        found = [(sentence.stands_for, sentence.stands_for_reviews) for sentence in view.sentences]
        assert found == [tuple(count) for count in counts]
        assert [sentence.rank for sentence in view.sentences] == list(range(len(ids)))
        assert [sentence.review_id.encode() for sentence in view.sentences] == list(
            map(review_of, ids)
        )
        assert view.sentence_count == len(live)


def test_words(stays):
    driver, entities = stays
    for words in (1, 20, 75, 10_000):
        view = short(driver, entities[0], words=words, threshold=0.99)
        walk = short(driver, entities[0], sentences=100, threshold=0.99)
        texts = [sentence.text for sentence in walk.sentences]
        taken = fitting(texts, words)
        assert [sentence.text for sentence in view.sentences] == [texts[at] for at in taken]
        assert sum(len(sentence.text.split()) for sentence in view.sentences) <= words
        assert sum(sentence.stands_for for sentence in view.sentences) <= view.sentence_count
    both = short(driver, entities[0], sentences=2, words=10_000, threshold=0.99)
    assert len(both.sentences) == 2
    assert len(short(driver, entities[0], threshold=0.999).sentences) == 10


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sentences": 0}, "sentences is a number from 1 to 100"),
        ({"sentences": 101}, "sentences is a number from 1 to 100"),
        ({"words": 0}, "words is a number from 1 to 10000"),
        ({"words": 10_001}, "words is a number from 1 to 10000"),
        ({"threshold": 1.0}, "threshold is a number from 0 up to"),
        ({"threshold": -0.1}, "threshold is a number from 0 up to"),
        ({"threshold": float("nan")}, "threshold is a number from 0 up to"),
    ],
)
def test_an_extent_that_is_none(asked, message):
    with pytest.raises(ValueError, match=message):
        Extent(**asked)


HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "\u202eevil\u202c \u0627\u0644\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea e\u0301\u0301\u0301",
    "a" * 2000,
    "'; DROP TABLE entities; --\x00\x1b[2J",
]


def test_one_sentence_none_and_hostile_ones():
    driver = Driver()
    assert short(driver, "nobody") is None
    driver.run(upsert(0, "one", "Alone."), upsert(1, "empty", entity_id="bare"))
    (only,) = short(driver).sentences
    assert (only.text, only.distance, only.stands_for, only.stands_for_reviews) == (
        "Alone.",
        0.0,
        1,
        1,
    )
    view = short(driver, "bare")
    assert (view.sentences, view.sentence_count, view.review_count) == ((), 0, 1)
    assert short(driver, "bare", words=75).sentences == ()
    driver.run(delete(2, "one"))
    assert short(driver).sentences == ()
    driver.run(delete_entity(3))
    assert short(driver) is None
    driver.run(
        *(
            upsert(4 + at, f"<{text[:9]}>#", text, entity_id="odd")
            for at, text in enumerate(HOSTILE)
        )
    )
    view = short(driver, "odd", threshold=0.9999999)
    shown = {sentence.text for sentence in view.sentences}
    assert shown <= set(HOSTILE)
    assert sum(sentence.stands_for for sentence in view.sentences) == len(HOSTILE)
