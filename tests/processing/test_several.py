"""Records with several events, by a mapping: each is one step of its entities, or a dead letter."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, FakeEngine, config, sent
from tests.harness.facet_model import FacetModel
from tests.harness.several import Lists, OneStep
from tests.processing.facet_runs import events, with_facets
from worker.events import Record
from worker.processing.config import RecordSelection
from worker.state import verify_partition
from worker.text.declared import DeclaredEngine, ModelFacts

ENTITIES = ["a", "b", "é😀\0"]
setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "emit": st.sampled_from(["every", "coalesced"]),
        "min_changes": st.sampled_from([1, 1, 2, 3]),
        "cache_bytes": st.sampled_from([0, 20_000, 10**8]),
    }
)


class SeveralModel(OneStep, FacetModel):
    """Knows that an entity may be full."""

    def review_upserted(self, i, record, event):
        outcome = super().review_upserted(i, record, event)
        entity = self.entities.get((record.partition, event["entity_id"]))
        most = self.config.limits.max_sentences_per_entity
        return "dead_letter:full" if entity and len(entity.live()) > most else outcome


@st.composite
def bodies(draw):
    """An event of one of few entities."""
    _, value = draw(events)
    try:
        body = json.loads(value or b"{}")
    except ValueError:
        body = {"type": "review.deleted", "review_id": "r"}
    return {"type": "entity.deleted", **body, "entity_id": draw(st.sampled_from(ENTITIES))}


@st.composite
def records(draw, most=30):
    made = []
    for offset in range(draw(st.integers(1, most))):
        count = draw(st.sampled_from([0, 1, 1, 2, 2, 3, 6]))
        found = draw(st.lists(bodies(), min_size=count, max_size=count))
        one_entity = draw(st.booleans())
        for body in found:
            body["entity_id"] = "a" if one_entity else body["entity_id"]
        made.append(record(offset, *found))
    return made


def record(offset, *members):
    return Record("reviews", 0, offset, 1_700_000_000_000, b"any", json.dumps(members).encode())


def upserted(review_id, *texts, entity_id="a", **fields):
    fields |= {"entity_id": entity_id, "review_id": review_id, "sentences": list(texts)}
    return {"type": "review.upserted", **fields}


def ended(kind, entity_id="a", **fields):
    return {"type": f"{kind}.deleted", "entity_id": entity_id, **fields}


def refused(messages):
    """The messages without why a record is a dead letter: of several reasons the model names
    another one.
    """
    return [(key, value) if key == b"any" else (key, value, name) for key, value, name in messages]


@settings(max_examples=100, deadline=None)
@given(setups, records(), st.sampled_from([4, 10**6]), st.sampled_from([3, 10**6]), st.data())
def test_records_equal_brute_force(setup, made, most, sentences, data):
    """However they are cut into micro-batches, also by the processor, and over restarts."""
    limits = {"max_sentences_per_entity": most}
    batch = {"sentences": sentences}
    driver = Driver(with_facets(mapping=Lists(), limits=limits, batch=batch, **setup))
    model = SeveralModel(driver.config, FakeEngine.vector)
    while made:
        if data.draw(st.booleans()):
            driver.restart()
        result = driver.run(*made[: data.draw(st.sampled_from([1, 2, 5, 20]))])
        expected, outcomes = model.run(made[: result.taken])
        assert refused(map(sent, result.messages)) == refused(expected)
        found = Counter(
            outcome.partition(":")[0] for _, outcome in result.stats.outcomes.elements()
        )
        assert found == Counter(outcome.partition(":")[0] for outcome in outcomes)
        assert result.next_offsets == {0: made[result.taken - 1].offset + 1}
        made = made[result.taken :]
    checks = list(verify_partition(driver.rows[0], dimension=3, k=setup["k"], distinct=False,
                                   min_changes=setup["min_changes"]))  # fmt: skip
    assert [check.problems for check in checks if check.problems] == []
    assert {check.entity_id for check in checks} == {name for _, name in model.entities}


def letter_of(batch):
    (letter,) = (message for message in batch.messages if message.topic == "dlq")
    headers = dict(letter.headers)
    return headers["dlq.reason"].decode(), headers["dlq.detail"].decode()


FULL = {"max_sentences_per_entity": 3, "max_sentences_per_review": 3}


@pytest.mark.parametrize(
    ("last", "limits", "reason", "detail"),
    [
        (upserted("r", "x", "y", "z", entity_id="b"), FULL, "entity_full",
         "event 3 (entity_id 'b'): 1 sentences and 3 more, at most 3"),
        (upserted("r", "w", "x", "y", "z"), FULL, "too_many_sentences",
         "event 3 (entity_id 'a'): sentences: 4, at most 3 are taken"),
        (upserted("r", "good", "nan"), {}, "bad_vector",
         "event 3 (entity_id 'a'): sentence r#1: the engine's vector is zero or not finite"),
        (upserted("r", "x", occurred_at="2026-02-31T00:00:00Z"), {}, "bad_field",
         "event 3 (entity_id 'a'): occurred_at: 2026-02-31 is not a date"),
        (ended("entity"), {}, "bad_field",
         "event 1 (entity_id 'a'): the record also deletes the entity: "
         "only a bridge takes both of one record"),
        (upserted("r", "x"), {"max_sentences_per_deletion": 2}, "too_many_sentences",
         "event 3 (entity_id 'a'): the events so far rewrite 3 sentences, at most 2 are rewritten "
         "by one record"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", [[], [upserted("n", "new", entity_id="c")]])
def test_a_record_of_which_one_event_is_refused_leaves_no_trace(
    last, limits, reason, detail, beside
):
    """Neither in the other records of its micro-batch."""
    some = [upserted("s", "one"), upserted("s", "two", entity_id="new")]
    first = record(0, upserted("old", "old", entity_id="b"))
    driver = Driver(config(mapping=Lists(), limits=limits))
    driver.run(first)
    bad, good = record(1, *some, last), record(2, *beside, upserted("t", "one"))
    batch = driver.run(bad, good)
    assert letter_of(batch) == (reason, detail)
    other = Driver(config(mapping=Lists(), limits=limits))
    other.run(first)
    alone = other.run(good)
    assert batch.messages[1:] == alone.messages
    assert batch.rows == alone.rows
    assert driver.engine.asked[1:] == other.engine.asked[1:] or reason == "bad_vector"
    assert sum(batch.stats.outcomes.values()) == 2


def test_the_events_of_a_record_are_one_change_of_an_entity():
    """Caused by the last of them, after all of them."""
    driver = Driver(config(mapping=Lists(), k=9))
    driver.run(record(0, upserted("r", "one", "two")))
    edit = upserted("r", "one", "three", rating=2, occurred_at="2026-11-20T12:00:00Z")
    brief = upserted("s", "brief")
    changes = [upserted("t", "late"), edit, brief, ended("review", review_id="s"), upserted("u")]
    (body,) = driver.bodies(record(1, *changes))
    assert (body["added"], body["removed"]) == (["t#0", "r#1"], ["r#1"])
    assert (body["review_count"], body["sentence_count"]) == (3, 3)
    place = {"topic": "reviews", "partition": 0, "offset": 1}
    assert body["cause"] == {"type": "review.upserted", **place, "review_id": "u"}
    dates = {sentence["sentence_id"]: sentence.get("occurred_at") for sentence in body["sentences"]}
    assert dates == {"t#0": None, "r#0": edit["occurred_at"], "r#1": edit["occurred_at"]}
    # what a later event of the record undoes is no change
    assert driver.bodies(record(2, brief, ended("review", review_id="s"))) == []


def test_of_a_record_the_events_of_chosen_entities_are_replayed():
    wanted = RecordSelection(entities=frozenset({b"a", b"c"}))
    driver = Driver(config(mapping=Lists(), selection=wanted))
    some = [upserted("r", "one", entity_id=name) for name in "abc"]
    batch = driver.run(record(0, *some), record(1, some[1], some[1]))
    assert [message.key for message in batch.messages] == [b"a", b"c"]
    assert batch.stats.outcomes == {("several", "applied"): 1, ("none", "ignored:not_selected"): 1}


def test_why_an_engine_has_no_vector_does_not_depend_on_other_records():
    driver, other = Driver(config(mapping=Lists())), Driver(config(mapping=Lists()))
    first, bad = record(0, upserted("q", "no", "nan")), record(1, upserted("r", "nan", "none"))
    for driven in (driver, other):
        driven.engine.vector = lambda text: None if text.startswith("n") else [1, 1, 1]
    together = driver.run(first, bad).messages
    assert together == [*other.run(first).messages, *other.run(bad).messages]


def test_sentences_are_counted_by_whether_the_model_reads_their_language():
    """Those of a refused record are not, nor those that bring their vectors."""
    model = DeclaredEngine(FakeEngine(), ModelFacts(languages=("en", "nl")))
    driver = Driver(config(mapping=Lists(), limits={"max_sentences_per_review": 3}), model)
    batch = driver.run(
        record(0, upserted("r", "one", "two", language="en-GB"), upserted("s", "x", language="FR")),
        record(1, upserted("t", "y", language="fr"), upserted("u", "w", "x", "y", "z")),
        record(
            2,
            upserted("v", "one", language="english"),
            upserted("v", "one", "three", language=" DUT_be"),
        ),
        record(3, {**upserted("w"), "sentences": [{"text": "a", "embedding": [1, 2, 3]}]}),
    )
    assert batch.stats.outcomes.total() == 4
    assert batch.stats.read_by_model == {"yes": 4, "no": 1, "unknown": 1}
    assert batch.stats.unread == {"fr": 1}
    plain = Driver(config(mapping=Lists()))
    assert not plain.run(record(0, upserted("r", "one", language="en"))).stats.read_by_model
