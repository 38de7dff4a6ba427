"""What the model of `test_processor_model` and the frozen streams leave open: the body by heart,
engines, limits, and rows beside the entities'.
"""

import re

import numpy as np
import pytest

from tests.harness.drive import (
    Driver,
    FakeEngine,
    config,
    delete_entity,
    delete_sentences,
    record,
    upsert,
)
from worker.processing.processor import Processor
from worker.state import FingerprintMismatch, read_applied
from worker.state.keys import APPLIED, ENTITY, FINGERPRINT, GARBAGE, OUTPUT
from worker.state.partition import read_output
from worker.state.rows import Applied


@pytest.fixture
def driver():
    return Driver()


def ids(body):
    return [sentence["sentence_id"] for sentence in body["sentences"]]


# -- versions --------------------------------------------------------------------------------------


def test_the_greatest_version_still_has_a_successor(driver):
    driver.run(upsert(0, "r", "one", review_version=2**63 - 1))
    assert driver.outcome(upsert(1, "r", "two")) == "applied"
    assert driver.outcome(upsert(2, "r", "x", review_version=2**63 - 1)) == "ignored:not_newer"


# -- sentences -------------------------------------------------------------------------------------


def test_signs_alone_are_a_sentence_only_if_the_event_gives_them():
    """Its producer has split the review; of a text the worker decides."""
    driver = Driver(config(limits={"max_sentence_chars": 5}))
    (given,) = driver.bodies(upsert(0, "given", "!!!", "👍"))
    assert ids(given) == ["given#0", "given#1"]
    text = {"type": "review.upserted", "review_id": "r", "text": "- \n!!!\nGood. !!!!!!!!"}
    (split,) = driver.bodies(record(1, "other", text))
    assert [(s["sentence_id"], s["text"]) for s in split["sentences"]] == [("r#0", "Good.")]


def test_sentences_that_the_engine_does_not_read_to_their_end_are_cut_unless_they_have_a_vector():
    """As at the cap: given ones too, which then have the numbers of their pieces."""

    class Reader(FakeEngine):
        reads_all = staticmethod(lambda text: len(text.split()) <= 3)

    driver = Driver(config(k=9), Reader())
    given = ("a b c d e f", [1, 0, 0]), "a b c d e - - .", "last"
    text = {"type": "review.upserted", "review_id": "s", "text": "A b c d e f - ! ! ! ! !"}
    for event, pieces in (
        (upsert(0, "r", *given), ["a b c d e f", "a b", "c d", "e -", "- .", "last"]),
        (record(1, "f", text), ["A b c", "d e f"]),
    ):
        (body,) = driver.bodies(event)
        found = {s["sentence_id"].split("#")[1]: s["text"] for s in body["sentences"]}
        assert found == {str(number): piece for number, piece in enumerate(pieces)}


def test_a_text_of_too_many_sentences_is_a_dead_letter_whatever_is_stored():
    driver = Driver(config(limits={"max_sentences_per_review": 2}))
    driver.run(upsert(0, "r", "one", review_version=9))
    body = {
        "type": "review.upserted",
        "review_id": "r",
        "text": "Good room.\nBad food.\nGreat view.",
        "review_version": 1,
    }
    assert driver.outcome(record(1, "e", body)) == "dead_letter:too_many_sentences"
    assert driver.outcome(upsert(2, "r", "a", "b", "c")) == "dead_letter:too_many_sentences"


# -- entities --------------------------------------------------------------------------------------


def test_an_entity_born_and_deleted_in_one_batch_leaves_no_row(driver):
    driver.run(upsert(0, "r", "one"), delete_entity(1))
    assert list(driver.rows[0].scan(ENTITY)) == []
    assert list(driver.rows[0].scan(GARBAGE)) == []


# -- the set ---------------------------------------------------------------------------------------


def test_the_body_is_the_contracts(driver):
    records = [
        upsert(4, "a", ("one", [1, 0, 0]), rating=4, occurred_at="2026-11-20T12:00:00Z"),
        upsert(5, "b", ("two", [1, 0, 0]), ("three", [0, 1, 0])),
    ]
    first, second = (message.value.decode() for message in driver.run(*records).messages)
    assert first == (
        '{"type":"summary.changed","entity_id":"e","epoch":7,"sequence":4,"previous_sequence":null,'
        '"sentences":[{"rank":0,"sentence_id":"a#0","review_id":"a","text":"one","rating":4.0,'
        '"occurred_at":"2026-11-20T12:00:00Z","distance":0.0,"support":1}],"added":["a#0"],"removed":[],"review_count":1,"sentence_count":1,'
        '"k":3,"cause":{"type":"review.upserted","topic":"reviews","partition":0,"offset":4,"review_id":"a"},'
        '"occurred_at":"2026-11-20T12:00:00Z","embedding_model":"fake","algorithm":"coversumm/1",'
        '"ratings":{"count":1,"mean":4.0,"histogram":{"4":1}}}'
    )
    assert '"previous_sequence":4,' in second
    assert '"added":["b#0","b#1"],"removed":[]' in second
    assert '"distance":0.471405,"support":2},{"rank":1,"sentence_id":"b#0"' in second
    assert '"occurred_at":null' in second


def test_a_rating_of_minus_zero_is_published_alike_from_memory_and_from_rows(driver):
    """The same state gives the same bytes, and -0.0 is not written like 0.0."""

    def ratings(driver):
        driver.run(upsert(0, "r", ("one", [1, 0, 0]), rating=-0.0))
        if driver is restarted:
            driver.restart()
        (body,) = driver.run(upsert(1, "s", ("two", [1, 0, 0]), rating=1)).messages
        return body.value

    restarted = Driver()
    assert ratings(restarted) == ratings(driver)


# -- vectors ---------------------------------------------------------------------------------------


def test_each_text_of_a_batch_is_embedded_once(driver):
    batch = driver.run(
        upsert(0, "a", "one", "two"), upsert(0, "b", "two", entity_id="f", partition=1)
    )
    assert driver.engine.asked == ["one", "two"]
    assert batch.stats.sentences_embedded == 2


def test_an_edit_embeds_only_what_changed(driver):
    driver.run(upsert(0, "r", "one", "two"))
    driver.restart()
    driver.run(upsert(1, "r", "two", "three"))
    assert driver.engine.asked == ["one", "two", "three"]


def test_what_is_not_newer_is_not_embedded(driver):
    driver.run(upsert(0, "r", "one", review_version=2), upsert(1, "r", "stale", review_version=1))
    assert driver.engine.asked == ["one"]


def test_a_text_the_engine_fails_on_is_a_dead_letter_and_the_rest_goes_on(driver):
    batch = driver.run(
        upsert(0, "a", "one"),
        upsert(1, "b", "nan", "two"),
        upsert(2, "b", "three"),
        delete_sentences(3, "b#1"),
    )
    assert batch.stats.outcomes == {
        ("review.upserted", "applied"): 2,
        ("review.upserted", "dead_letter:bad_vector"): 1,
        ("sentences.deleted", "ignored:unknown_sentence"): 1,
    }
    assert driver.summary(0, "e").sentence_count == 2


def test_without_an_engine_every_sentence_needs_a_vector():
    driver = Driver(config(limits={"embeds": False, "model": None}))
    driver.processor = Processor(driver.config, driver.rows.__getitem__, None)
    assert driver.outcome(upsert(0, "r", "one")) == "dead_letter:no_embedding"
    (body,) = driver.bodies(upsert(1, "r", ("one", [1, 0, 0]), " "))
    assert body["embedding_model"] is None


# -- bad input and limits --------------------------------------------------------------------------


def test_applied_offsets_are_ignored(driver):
    driver.run(upsert(0, "a", "one"), upsert(1, "b", "two"))
    for _ in range(2):
        batch = driver.run(upsert(0, "a", "one"), upsert(1, "b", "two"))
        assert batch.stats.outcomes == {("none", "ignored:already_applied"): 2}
        assert (batch.messages, batch.rows[0], batch.next_offsets) == ([], {}, {0: 2})
        driver.restart()
    batch = driver.run(
        upsert(1, "b", "two"), upsert(2, "c", "three"), upsert(7, "d", "four", partition=1)
    )
    assert batch.next_offsets == {0: 3, 1: 8}
    assert batch.stats.outcomes["review.upserted", "applied"] == 2
    assert read_applied(driver.rows[0]) == Applied(3, "reviews", "")


# -- state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"k": 9}, "k: stored '3', configured '9'"),
        ({"distinct": True}, "distinct: stored 'False', configured 'True' (COVERSUMM_DISTINCT)"),
        ({"by_text": True}, "weigh: stored 'reviews', configured 'texts' (COVERSUMM_WEIGH)"),
    ],
)
def test_another_fingerprint_is_refused(driver, others, message):
    driver.run(upsert(0, "r", "one"))
    other = Processor(config(**others), driver.rows.__getitem__, driver.engine)
    with pytest.raises(FingerprintMismatch, match=f"{re.escape(message)}.*own COVERSUMM_EPOCH"):
        other.check_partition(0)
    assert other.check_partition(1) is None


def test_forgotten_partitions_are_read_again(driver):
    driver.run(upsert(0, "r", "one"), upsert(0, "r", "one", entity_id="f", partition=1))
    driver.processor.forget([0])
    driver.rows[0].write({key: None for key, _ in driver.rows[0].scan(b"")})
    assert driver.processor.check_partition(0) is None
    assert driver.processor.check_partition(1) == 1
    (body,) = driver.bodies(upsert(0, "s", "two"))
    assert ids(body) == ["s#0"]


def test_memory_is_bounded_between_batches_even_by_one_entity():
    random = np.random.default_rng(3)
    vectors = random.normal(size=(3000, 3))
    driver = Driver(config(cache_bytes=100_000))
    for i in range(20):
        batch = driver.run(upsert(i, "r", ("one", [1, 0, 0]), entity_id=f"e{i}"))
    assert 1 < batch.stats.cached_entities < 20
    assert 0 < batch.stats.cache_bytes <= 100_000
    batch = driver.run(
        *[upsert(20 + i, f"r{i}", (f"t{i}", v.tolist())) for i, v in enumerate(vectors)]
    )
    assert batch.stats.cache_bytes <= 100_000
    batch = driver.run(upsert(3020, "one more", "text"))
    assert batch.stats.cached_entities == 1
    tiny = Driver(config(cache_bytes=0))
    assert tiny.run(upsert(0, "r", "one")).stats.cached_entities == 0


def test_the_fingerprint_is_the_first_row_of_a_partitions_changelog(driver):
    """Its absence shows that a changelog lost its beginning, however little of it."""
    batch = driver.run(*[upsert(i, f"r{i}", "text") for i in range(5)])
    assert next(iter(batch.rows[0])) == FINGERPRINT
    assert FINGERPRINT not in driver.run(upsert(9, "r9", "text")).rows[0]


def test_the_applied_row_tells_the_topics_id_once_it_is_known(driver):
    driver.run(upsert(0, "r", "one"))
    assert driver.processor.topic_id(0) == ""
    driver.processor.reads_from(0, "an id")
    driver.run(upsert(1, "r", "two"))
    assert read_applied(driver.rows[0]) == Applied(2, "reviews", "an id")
    driver.processor.forget([0])
    assert driver.processor.topic_id(0) == "an id"
    driver.processor.reads_from(0, "")  # nobody tells: what is known stays
    driver.run(upsert(2, "r", "three"))
    assert read_applied(driver.rows[0]) == Applied(3, "reviews", "an id")


def test_the_applied_row_names_the_format_of_reviews_with_authors_from_the_first_one_on(driver):
    """A build that does not know it is refused such a partition, and only such a one."""

    def formats():
        return [driver.rows[number].get(APPLIED)[0] for number in (0, 1)]

    driver.run(upsert(0, "r", "one", language="en"), upsert(0, "r", "one", partition=1))
    driver.run(upsert(1, "s", "one", entity_id="gone", author_id="u"), delete_entity(2, "gone"))
    driver.run(upsert(3, "t", "one", author_id="u" * 129))
    assert formats() == [2, 2]
    driver.run(upsert(4, "r", "one", verified=False))
    assert formats() == [3, 2]
    driver.run(delete_entity(5))
    driver.restart()
    driver.run(upsert(6, "r", "one"), upsert(1, "r", "two", partition=1))
    assert formats() == [3, 2]
    assert read_applied(driver.rows[0]).review_format == 3


def test_the_output_row_is_written_once_and_again_when_the_output_changes(driver):
    def written(at, topic_id):
        driver.processor.publishes_to(0, topic_id)
        return OUTPUT in driver.run(upsert(at, "r", f"text {at}")).rows[0]

    assert driver.processor.output(0) is None
    assert [written(0, "an id"), written(1, "an id")] == [True, False]
    driver.processor.forget([0])
    assert driver.processor.output(0) == read_output(driver.rows[0]) == (7, "summaries", "an id")
    assert not written(2, "")  # nobody tells: what is known stays
    assert written(3, "another")
    driver.config = config(output_topic="others")
    driver.restart()
    assert written(4, "")
    assert read_output(driver.rows[0]) == (7, "others", "")


def test_the_first_rows_have_the_output_behind_the_fingerprint(driver):
    driver.processor.publishes_to(0, "an id")
    assert list(driver.run(upsert(0, "r", "text")).rows[0])[:2] == [FINGERPRINT, OUTPUT]
