"""The verifier finds what it is there to find: nothing in a right output, and every kind of wrong
in a wrong one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.compare import (
    Change,
    DeadLetter,
    Difference,
    compare_changes,
    compare_dead_letters,
)
from tests.harness.history import history
from tests.harness.load import HashedVectors, Mix, Sent, Stream, read_reviews
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.topics import Message, end_offsets, producer, read_topic
from tests.harness.workers import WorkerError, pipeline
from worker.settings import Settings

VARIABLES = {"COVERSUMM_EMBEDDER": "none", "COVERSUMM_DIMENSION": "4", "COVERSUMM_K": "3"}
SETTINGS = Settings.from_environment(VARIABLES)
EVENTS = list(
    Stream(read_reviews(limit=150), HashedVectors(4), mix=Mix(delete_entity=0.03, poison=0.1))
)
RECORDS = [Message("in", 0, offset, 0, *event, ()) for offset, event in enumerate(EVENTS)]
WANTED = history(RECORDS, SETTINGS)

Mutation = Callable[[list[Message]], None]


def published(change: Change, topic: str = "out") -> Message:
    """The message that a worker without fault publishes."""
    headers = {
        "ce_id": change.ce_id,
        "ce_type": "entity.deleted" if change.body is None else "summary.changed",
        "ce_specversion": "1.0",
        "content-type": "application/json",
        "ce_time": change.occurred_at or "1970-01-01T00:00:00.000Z",
    }
    value = None if change.body is None else json.dumps(change.body, ensure_ascii=False).encode()
    return _message(topic, change.partition, change.entity_id.encode(), value, headers)


def dead(letter: DeadLetter) -> Message:
    """The dead letter that a worker without fault publishes."""
    source = letter.source
    place = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(source.offset),
    }
    headers = {"dlq.reason": letter.reason, "dlq.worker.version": "1"}
    headers |= {f"dlq.source.{name}": value for name, value in place.items()}
    return _message("dlq", source.partition, source.key, source.value, headers)


def _message(
    topic: str, partition: int, key: bytes | None, value: bytes | None, headers: dict[str, str]
) -> Message:
    packed = tuple((name, text.encode()) for name, text in headers.items())
    return Message(topic, partition, 0, 0, key, value, packed)


def _of_one_entity(messages: list[Message]) -> list[int]:
    """Where the changes of the entity with the most changes are."""
    keys = [message.key for message in messages]
    busiest = max(set(keys), key=keys.count)
    return [i for i, key in enumerate(keys) if key == busiest and messages[i].value is not None]


def _lose(messages: list[Message]) -> None:
    del messages[_of_one_entity(messages)[3]]


def _repeat(messages: list[Message]) -> None:
    at = _of_one_entity(messages)[3]
    messages.insert(at + 1, messages[at])


def _swap(messages: list[Message]) -> None:
    place, other = _of_one_entity(messages)[3:5]
    messages[place], messages[other] = messages[other], messages[place]


def _misplace(messages: list[Message]) -> None:
    at = _of_one_entity(messages)[3]
    messages[at] = messages[at]._replace(partition=1)


def _add(messages: list[Message]) -> None:
    at = _of_one_entity(messages)[3]
    body = json.loads(messages[at].value or b"")
    extra = published(Change(0, body["entity_id"], 1, 10**6, None, {**body, "sequence": 10**6}))
    messages.append(extra)


def _edit(**fields: object) -> Mutation:
    def mutate(messages: list[Message]) -> None:
        at = _of_one_entity(messages)[3]
        body = json.loads(messages[at].value or b"")
        messages[at] = messages[at]._replace(value=json.dumps({**body, **fields}).encode())

    return mutate


def _nudge_distance(messages: list[Message]) -> None:
    at = next(
        i
        for i, message in enumerate(messages)
        if json.loads(message.value or b"{}").get("sentences")
    )
    body = json.loads(messages[at].value or b"")
    body["sentences"][0]["distance"] += 1e-6
    messages[at] = messages[at]._replace(value=json.dumps(body).encode())


def _drop_tombstone(messages: list[Message]) -> None:
    del messages[next(i for i, message in enumerate(messages) if message.value is None)]


def _lose_last(messages: list[Message]) -> None:
    del messages[_of_one_entity(messages)[-1]]


MUTATIONS: dict[str, tuple[Mutation, set[str]]] = {
    "lost": (_lose, {"I3 lost"}),
    "repeated": (_repeat, {"I3 repeated", "I2 reordered"}),
    "swapped": (_swap, {"I3 reordered", "I2 reordered"}),
    "another partition": (_misplace, {"I3 wrong"}),
    "additional": (_add, {"I3 additional", "I1 wrong"}),
    "wrong count": (_edit(review_count=10**6), {"I3 wrong"}),
    "wrong predecessor": (_edit(previous_sequence=10**6), {"I3 wrong"}),
    "wrong distance": (_nudge_distance, {"I3 wrong"}),
    "tombstone lost": (_drop_tombstone, {"I3 lost"}),
    "last one lost": (_lose_last, {"I3 lost", "I1 wrong"}),
}


def _kinds(differences: list[Difference]) -> set[str]:
    return {f"{difference.invariant} {difference.kind}" for difference in differences}


def test_the_history_has_something_of_everything() -> None:
    assert len(WANTED.changes) > 100
    assert any(change.body is None for change in WANTED.changes)
    assert len(WANTED.dead_letters) > 5
    assert {"applied", "ignored:not_newer", "ignored:unknown_entity"} <= set(WANTED.outcomes)


def test_a_right_output_has_no_difference() -> None:
    assert compare_changes(WANTED.changes, map(published, WANTED.changes)) == []
    assert (
        compare_dead_letters(WANTED.dead_letters, [dead(letter) for letter in WANTED.dead_letters])
        == []
    )


def test_entities_may_interleave_in_any_order() -> None:
    messages = [published(change) for change in WANTED.changes]
    by_entity = sorted(messages, key=lambda message: message.key or b"")
    assert compare_changes(WANTED.changes, by_entity) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_output_is_found(name: str) -> None:
    mutate, kinds = MUTATIONS[name]
    messages = [published(change) for change in WANTED.changes]
    mutate(messages)
    found = compare_changes(WANTED.changes, messages)
    assert kinds <= _kinds(found)
    assert {kind for kind in _kinds(found) if kind.startswith("I3")} <= kinds


def test_coalesced_output_may_leave_out_all_but_the_last_change() -> None:
    last: dict[bytes, Message] = {}
    for change in WANTED.changes:
        message = published(change)
        last[message.key or b""] = message
    assert compare_changes(WANTED.changes, last.values(), coalesced=True) == []
    some_key = next(key for key, message in last.items() if message.value is not None)
    del last[some_key]
    assert _kinds(compare_changes(WANTED.changes, last.values(), coalesced=True)) == {"I1 wrong"}


@pytest.mark.parametrize(
    ("mutate", "kind"),
    [
        (lambda letters: letters.pop(2), "I4 lost"),
        (lambda letters: letters.append(letters[2]), "I4 repeated"),
        (lambda letters: letters.reverse(), "I4 reordered"),
        (lambda letters: letters.append(dead(DeadLetter(RECORDS[0], "bad_json"))), "I4 additional"),
        (
            lambda letters: letters.__setitem__(
                2, letters[2]._replace(value=b"bytes that were touched")
            ),
            "I4 wrong",
        ),
        (
            lambda letters: letters.__setitem__(
                2, dead(WANTED.dead_letters[2]._replace(reason="another"))
            ),
            "I4 wrong",
        ),
    ],
)
def test_wrong_dead_letters_are_found(mutate: Callable[[list[Message]], object], kind: str) -> None:
    letters = [dead(letter) for letter in WANTED.dead_letters]
    mutate(letters)
    assert _kinds(compare_dead_letters(WANTED.dead_letters, letters)) == {kind}


@pytest.mark.kafka
@pytest.mark.timeout(TEST_SECONDS)
@pytest.mark.parametrize("lost", one_of([1, 0]))
def test_as_a_process_over_real_topics(kafka: KafkaBroker, tmp_path: Path, lost: int) -> None:
    """Clean: exit 0 and a report; one change less: exit 1, and the report names it."""
    with pipeline(kafka, f"verifier-{lost}", tmp_path, partitions=3, settings=VARIABLES) as site:
        for topic in (site.output_topic, site.dlq_topic):
            kafka.create_topic(topic, site.partitions)
        _fill(site.broker, site.input_topic, EVENTS)
        wanted = history(read_topic(kafka.bootstrap_servers, site.input_topic), SETTINGS)
        output = [published(change, site.output_topic) for change in wanted.changes]
        del output[:lost]
        letters = [dead(letter)._replace(topic=site.dlq_topic) for letter in wanted.dead_letters]
        _publish(kafka, [*output, *letters])
        if lost:
            with pytest.raises(WorkerError, match='"I3 lost": 1'):
                site.verify(committed=False)
        else:
            report = site.verify(committed=False)
            assert report["ok"]
            assert report["records"] == len(EVENTS)
            assert report["published"] == len(wanted.changes)


@pytest.mark.kafka
def test_partitions_have_the_murmur2_of_their_keys(kafka: KafkaBroker) -> None:
    """Faust and Kafka's own clients place a key by murmur2; the load must too, or a worker sees
    foreign keys.
    """
    kafka.create_topic("murmur2", 4)
    _fill(kafka, "murmur2", [Sent(b"21", b"")])
    # Kafka's UtilsTest: murmur2("21") = -973932308, so partition (h & 0x7fffffff) % 4.
    assert end_offsets(kafka.bootstrap_servers, "murmur2")[(-973932308 & 0x7FFFFFFF) % 4] == 1


def _fill(broker: KafkaBroker, topic: str, events: list[Sent]) -> None:
    sender = producer(broker.bootstrap_servers)
    for event in events:
        sender.produce(topic, key=event.key, value=event.value)
    assert sender.flush(PATIENCE_SECONDS) == 0


def _publish(broker: KafkaBroker, messages: list[Message]) -> None:
    """Also an aborted transaction with everything once more, which no committed reader
    may count.
    """
    sender = producer(broker.bootstrap_servers, **{"transactional.id": messages[0].topic})
    sender.init_transactions(PATIENCE_SECONDS)
    for finish in (sender.abort_transaction, sender.commit_transaction):
        sender.begin_transaction()
        for message in messages:
            sender.produce(
                message.topic,
                partition=message.partition,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
            )
        assert sender.flush(PATIENCE_SECONDS) == 0
        finish(PATIENCE_SECONDS)
