"""With COVERSUMM_EMIT_MIN_CHANGES a set is published when it is far enough from the last published
one, and only then.

That the messages are those of the definition, byte for byte, is held by `test_processor_model`.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.events import sample
from tests.harness.drive import Driver, config, delete, delete_sentences, record, upsert
from worker.state import verify_partition
from worker.state.keys import MIN_CHANGES
from worker.state.partition import read_min_changes


def texts(body):
    return {(sentence["sentence_id"], sentence["text"]) for sentence in body["sentences"]}


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 3))
def test_what_is_published_is_never_behind_by_so_many(least: int, size: int, restarts: int) -> None:
    """Over real reviews, edited and taken down: after each event the published set is nearer than
    that to the true one.
    """
    events = sample(80)
    history = [
        *events,
        *({**event, "sentences": events[5]["sentences"]} for event in events[7:30:4]),
    ]
    history += [
        {"type": "review.deleted", "entity_id": event["entity_id"], "review_id": event["review_id"]}
        for event in events[::5]
    ]
    every = Driver(config(k=6, limits={"model": None}))
    some = Driver(config(k=6, limits={"model": None}, min_changes=least))
    true: dict[str, dict] = {}
    published: dict[str, list] = {}
    for at, event in enumerate(history):
        event_record = record(at, event["entity_id"], event)
        true |= {body["entity_id"]: body for body in every.bodies(event_record)}
        if restarts and at % (size + restarts) == 0:
            some.restart()
        for body in some.bodies(event_record):
            published.setdefault(body["entity_id"], []).append(body)
        now = true[event["entity_id"]]
        last = published[event["entity_id"]][-1]
        far = max(len(texts(now) - texts(last)), len(texts(last) - texts(now)))
        assert far < least
        quoted = {sentence["review_id"] for sentence in last["sentences"]}
        assert event["type"] != "review.deleted" or event["review_id"] not in quoted
        checks = verify_partition(some.rows[0], dimension=3, k=6, distinct=False, min_changes=least)
        assert at % 20 or not any(check.problems for check in checks)
    for bodies in published.values():
        for before, after in pairwise(bodies):
            is_deletion = after["cause"]["type"] == "review.deleted"
            assert max(len(after["added"]), len(after["removed"])) >= least or is_deletion
            assert after["previous_sequence"] == before["sequence"]
            ids = {sentence["sentence_id"] for sentence in before["sentences"]} - set(
                after["removed"]
            )
            assert ids | set(after["added"]) == {
                sentence["sentence_id"] for sentence in after["sentences"]
            }


@pytest.mark.parametrize("emit", ["every", "coalesced"])
@pytest.mark.parametrize(
    ("before", "deletion"),
    [
        ((), delete(2, "r0")),
        ((), delete_sentences(2, "r0#0")),
        ((upsert(1, "r0", "fives"),), delete(2, "r0")),  # published with the former text
        ((upsert(1, "r0"),), delete(2, "r0")),  # the edit left no sentence, and was not published
    ],
)
def test_a_deletion_of_what_is_published_is_published_at_once(emit, before, deletion):
    """Whatever the number is: else an entity that stays quiet would quote it for ever."""
    driver = Driver(config(k=5, min_changes=5, emit=emit))
    driver.run(upsert(0, "r0", "one"))
    assert driver.bodies(upsert(10, "r1", "three", "two", "a")) == []
    for earlier in before:
        assert driver.bodies(earlier._replace(offset=earlier.offset + 10)) == []
    driver.restart()
    (body,) = driver.bodies(deletion._replace(offset=20))
    assert body["removed"] == ["r0#0"]
    assert {sentence["review_id"] for sentence in body["sentences"]} == {"r1"}
    assert body["cause"]["type"] == json.loads(deletion.value)["type"]
    assert driver.bodies(delete(21, "unknown")) == []


@pytest.mark.parametrize("emit", ["final", "none"])
def test_a_replay_that_publishes_once_or_never_remembers_the_last_set(emit):
    published = []
    for least in (1, 3):
        driver = Driver(config(k=3, min_changes=least, emit=emit))
        for at, text in enumerate(["one", "three", "sixsix", "two"]):
            driver.run(upsert(at, f"r{at}", text))
        batch = driver.processor.finish(0, 4)
        published.append([json.loads(message.value) for message in batch.messages])
    assert published[0] == published[1]
    assert len(published[0]) == (emit == "final")


def test_sets_that_were_not_due_are_no_difference_after_the_number_was_lowered():
    """The rows record the highest one. A difference of as many is one."""

    def problems():
        checks = verify_partition(driver.rows[0], dimension=3, k=3, distinct=False)
        return {check.entity_id: check.problems for check in checks if check.problems}

    driver = Driver(config(k=3, min_changes=2))
    entities = [f"e{number}" for number in range(6)]
    events = [
        (name, f"r{i}", "word" * i) for n, name in enumerate(entities) for i in range(1, 4 + n)
    ]
    for at, (name, review, text) in enumerate(events):
        driver.run(upsert(at, review, text, entity_id=name))
    assert problems() == {}
    driver.config = config(k=3, min_changes=1)
    driver.restart()
    assert MIN_CHANGES not in driver.run(upsert(100, "r", "one", entity_id="other")).rows[0]
    assert problems() == {}
    assert read_min_changes(driver.rows[0]) == 2
    driver.rows[0].write({MIN_CHANGES: None})
    assert problems().keys() <= set(entities)
    assert problems(), "no set was behind"
