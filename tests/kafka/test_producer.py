"""A micro-batch's commit: the order of its steps, and what each failure of each step ends in (real broker: tests/real_kafka)."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.fake_producer import FakeProducer
from worker.errors import Crash, Fenced, SurroundingsError
from worker.events import Message
from worker.kafka.membership import Membership, group_metadata
from worker.kafka.producer import TransactionalProducer
from worker.settings import Settings

MEMBER = Membership(7, "member-é")
CLIENTS = FakeClients(producer=FakeProducer)
TRANSACTION_TIMEOUT_S = 10.0
SETTINGS = Settings(
    app_id="group",
    instance_id="0",
    transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
    commit_timeout_ms=25_000,
    max_message_bytes=2_000_000,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def producer(clock: FakeClock) -> TransactionalProducer:
    return TransactionalProducer(SETTINGS, CLIENTS, clock=clock)


def fake(producer: TransactionalProducer) -> Any:
    return producer._transactions._producer


MESSAGES = [Message("out", 1, b"k", b"v", [("h", b"1")]), Message("dlq", 0, None, b"dead", [])]
ROWS = {0: {b"a": b"1", b"b": None}, 1: {b"c": b"3"}}


def commit(producer: TransactionalProducer, membership: Membership = MEMBER) -> dict[int, int]:
    return producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11, 1: 22}, membership)


def test_rows_and_messages_are_flushed_before_the_offsets_are_sent(producer: TransactionalProducer) -> None:
    """An accepted offset commit then implies that all rows are below the next owner's high watermark."""
    last = commit(producer)
    broker = fake(producer)
    assert broker.calls == ["begin", *["produce"] * 5, "flush", "offsets", "commit"]
    assert broker.produced == [
        ("changelog", 0, b"a", b"1", []),
        ("changelog", 0, b"b", None, []),
        ("changelog", 1, b"c", b"3", []),
        ("out", 1, b"k", b"v", [("h", b"1")]),
        ("dlq", 0, None, b"dead", []),
    ]
    assert broker.offsets == [("in", 0, 11), ("in", 1, 22)]
    assert broker.metadata == group_metadata("group", MEMBER)
    assert last == {0: 102, 1: 103}  # of the changelog alone: 104 and 105 are offsets of other topics


def test_the_producer_is_transactional_and_places_keys_as_kafka_does(producer: TransactionalProducer) -> None:
    config = fake(producer).config
    assert config["transactional.id"] == "group-0"
    assert config["transaction.timeout.ms"] == 10_000
    assert config["partitioner"] == "murmur2_random"
    assert config["message.max.bytes"] == 2_000_000


def test_it_keeps_to_the_settings() -> None:
    settings = Settings(
        app_id="app",
        instance_id="3",
        transaction_timeout_ms=7_000,
        commit_timeout_ms=9_000,
        max_message_bytes=2 * 2**20,
        in_flight_messages=60_000,
        in_flight_bytes=128 * 2**20 + 7 * 2**10,
    )
    full: list[str] = []
    made = TransactionalProducer(settings, CLIENTS, on_full=lambda: full.append("full"))
    assert {
        "transactional.id": "app-3",
        "transaction.timeout.ms": 7_000,
        "message.max.bytes": 2 * 2**20,
        "queue.buffering.max.messages": 60_000,
        "queue.buffering.max.kbytes": 128 * 2**10 + 7,
    }.items() <= fake(made).config.items()
    fake(made).room = 4
    commit(made)
    assert fake(made).metadata == group_metadata("app", MEMBER)
    assert fake(made).timeouts == {9.0}
    assert full == ["full"]


@pytest.mark.parametrize("topic", ["changelog", "out", "dlq"])
def test_a_record_that_was_not_written_aborts_the_commit(producer: TransactionalProducer, topic: str) -> None:
    fake(producer).refused = {topic: KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)}
    with pytest.raises(Crash, match="NOT_ENOUGH_REPLICAS"):
        commit(producer)
    assert "offsets" not in fake(producer).calls
    assert "commit" not in fake(producer).calls


def test_records_left_at_the_deadline_abort_the_commit(producer: TransactionalProducer) -> None:
    fake(producer).unsent = 1
    with pytest.raises(Crash, match="deadline"):
        commit(producer)
    assert fake(producer).calls[-1] == "flush"


@pytest.mark.parametrize("step", ["begin", "produce", "flush", "offsets", "commit"])
@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT,
        KafkaError._STATE,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError._MSG_TIMED_OUT,
    ],
)
def test_a_failed_step_ends_the_commit_for_good(
    producer: TransactionalProducer, step: str, code: int
) -> None:
    """Nothing is aborted, retried or asked again: whether it was committed may be unknown."""
    fake(producer).failures = {step: KafkaError(code)}
    with pytest.raises(Crash) as crash:
        commit(producer)
    assert crash.value.exit_code == 3
    assert fake(producer).calls[-1] == step


FENCED = [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH]


@pytest.mark.parametrize("step", ["begin", "offsets", "commit"])
@pytest.mark.parametrize("code", FENCED)
def test_another_holder_of_the_transactional_id_is_told_from_a_crash(
    producer: TransactionalProducer, clock: FakeClock, step: str, code: int
) -> None:
    fake(producer).failures = {step: KafkaError(code)}
    with pytest.raises(Fenced, match="COVERSUMM_INSTANCE_ID") as fenced:
        commit(producer)
    assert fenced.value.exit_code == 4


def test_a_fenced_delivery_report_is_a_fenced_producer(
    producer: TransactionalProducer, clock: FakeClock
) -> None:
    fake(producer).refused = {"changelog": KafkaError(KafkaError._FENCED)}
    with pytest.raises(Fenced):
        commit(producer)


@pytest.mark.parametrize(("told", "ending"), [(KafkaError._FENCED, Fenced), (None, Crash)])
def test_a_fatal_error_that_flush_loses_is_asked_for(
    producer: TransactionalProducer, clock: FakeClock, told: int | None, ending: type[Exception]
) -> None:
    broker = fake(producer)
    broker.failures = {} if told is None else {"abort": KafkaError(told)}

    def flush(timeout: float) -> int:
        raise SystemError("returned NULL without setting an exception")

    broker.flush = flush
    with pytest.raises(ending):
        commit(producer)


@pytest.mark.parametrize("code", FENCED)
def test_fenced_after_the_transaction_timeout_is_the_broker_that_gave_up_on_us(
    producer: TransactionalProducer, clock: FakeClock, code: int
) -> None:
    """A worker that was paused in a commit: nobody else has its id, a restart puts it right."""
    broker = fake(producer)
    broker.failures = {"offsets": KafkaError(code)}
    flush = broker.flush

    def paused(timeout: float) -> int:
        clock.now_s += TRANSACTION_TIMEOUT_S
        return int(flush(timeout))

    broker.flush = paused
    with pytest.raises(Crash) as crash:
        commit(producer)
    assert crash.value.exit_code == 3


def test_the_topics_are_checked_between_the_written_rows_and_the_offsets(
    producer: TransactionalProducer,
) -> None:
    """Then the rows are in the log that was restored, and what is committed was read from the log it counts in."""
    broker = fake(producer)
    producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11}, MEMBER, lambda: broker.calls.append("topics"))
    assert broker.calls[-4:] == ["flush", "topics", "offsets", "commit"]


def test_a_topic_made_anew_ends_the_commit(producer: TransactionalProducer) -> None:
    def check() -> None:
        raise Crash("created again")

    with pytest.raises(Crash, match="created again"):
        producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11}, MEMBER, check)
    assert fake(producer).calls[-1] == "flush"


@pytest.mark.parametrize("membership", [Membership(-1, ""), Membership(-1, "member"), Membership(3, "")])
def test_a_commit_without_a_membership_is_refused_before_it_begins(
    producer: TransactionalProducer, membership: Membership
) -> None:
    """The broker would accept it without any check."""
    with pytest.raises(Crash, match="membership"):
        commit(producer, membership)
    assert fake(producer).calls == []


@pytest.mark.parametrize(("room", "waits"), [(5, 0), (4, 1), (2, 3)])
def test_a_full_queue_drains_and_the_commit_goes_on(
    producer: TransactionalProducer, room: int, waits: int
) -> None:
    """There are five records; each one that has to wait for room is told."""
    told: list[None] = []
    producer._transactions._on_full = lambda: told.append(None)
    fake(producer).room = room
    assert commit(producer) == {0: 102, 1: 103}
    assert fake(producer).calls.count("poll") == waits
    assert len(told) == waits
    assert len(fake(producer).produced) == 5


def test_a_queue_that_does_not_drain_ends_the_commit(
    producer: TransactionalProducer, clock: FakeClock
) -> None:
    fake(producer).room, fake(producer).drains = 2, False
    clock.tick_s = 1.0
    with pytest.raises(Crash, match="queue"):
        commit(producer)
    assert "flush" not in fake(producer).calls


def test_a_broker_without_transactions_is_told_in_one_line(producer: TransactionalProducer) -> None:
    fake(producer).failures = {"init": KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(SurroundingsError, match=r"transactional producer \(_TIMED_OUT"):
        producer.start()
