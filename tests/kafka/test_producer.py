"""A micro-batch's commit: the order of its steps, and what each failure of each step ends in (real
broker: tests/real_kafka).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.fake_producer import Bounded, Producers
from worker.errors import Crash, Fenced, InDoubt, Overtaken, SetupError, Unanswered
from worker.events import Message
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import FENCED, OVERTAKEN, REFUSED, RETRIABLE
from worker.kafka.group import Membership, group_metadata
from worker.kafka.producer import (
    ANSWER_SECONDS,
    FENCED_AGAIN,
    TransactionalProducer,
)
from worker.kafka.transactions import GRACE_SECONDS
from worker.settings import Settings

MEMBER = Membership(7, "member-é")
TRANSACTION_TIMEOUT_S = 10.0
SETTINGS = Settings(
    app_id="group",
    instance_id="0",
    transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
    commit_timeout_ms=25_000,
    max_message_bytes=2_000_000,
)


@pytest.fixture
def producer(clock: FakeClock, producers: Producers, bounded: Bounded) -> TransactionalProducer:
    return TransactionalProducer(
        SETTINGS, FakeClients(producer=producers), clock=clock, bounded=bounded
    )


def fake(producer: TransactionalProducer) -> Any:
    return producer._transactions._producer


MESSAGES = [Message("out", 1, b"k", b"v", [("h", b"1")]), Message("dlq", 0, None, b"dead", [])]
ROWS = {0: {b"a": b"1", b"b": None}, 1: {b"c": b"3"}}


def commit(producer: TransactionalProducer, membership: Membership = MEMBER) -> dict[int, int]:
    return producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11, 1: 22}, membership)


def test_rows_and_messages_are_flushed_before_the_offsets_are_sent(
    producer: TransactionalProducer,
) -> None:
    """An accepted offset commit then implies that all rows are below the next owner's high
    watermark.
    """
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
    assert last == {
        0: 102,
        1: 103,
    }  # of the changelog alone: 104 and 105 are offsets of other topics


@pytest.mark.parametrize("timeout_ms", [1_000, 10_000, 900_000])
def test_librdkafka_makes_a_producer_for_every_transaction_timeout_that_may_be_set(
    timeout_ms: int,
) -> None:
    settings = Settings(
        bootstrap_servers="127.0.0.1:1",
        transaction_timeout_ms=timeout_ms,
        commit_timeout_ms=timeout_ms + 1,
        stall_timeout_ms=timeout_ms + 300_000,
    )
    TransactionalProducer(settings, KafkaClients(settings))


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
    made = TransactionalProducer(
        settings,
        FakeClients(producer=Producers()),
        on_full=lambda: full.append("full"),
        bounded=Bounded(),
    )
    assert {
        "transactional.id": "app-3",
        "transaction.timeout.ms": 7_000,
        "partitioner": "murmur2_random",  # places keys as Kafka does
        "message.max.bytes": 2 * 2**20,
        "queue.buffering.max.messages": 60_000,
        "queue.buffering.max.kbytes": 128 * 2**10 + 7,
    }.items() <= fake(made).config.items()
    fake(made).room = 4
    commit(made)
    assert fake(made).metadata == group_metadata("app", MEMBER)
    assert fake(made).timeouts == {
        9.0,
        ANSWER_SECONDS,
    }  # for all records, and for each step after them
    assert full == ["full"]


# -- what a failure is -----------------------------------------------------------------------------

STEPS = ["begin", "produce", "flush", "offsets", "commit"]


@pytest.mark.parametrize("topic", ["changelog", "out", "dlq"])
def test_a_record_that_was_not_written_leaves_the_commit_in_doubt(
    producer: TransactionalProducer, topic: str
) -> None:
    fake(producer).refused = {topic: KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)}
    with pytest.raises(InDoubt, match="NOT_ENOUGH_REPLICAS"):
        commit(producer)
    assert "commit" not in fake(producer).calls


def test_records_left_at_the_deadline_leave_the_commit_in_doubt(
    producer: TransactionalProducer,
) -> None:
    fake(producer).unsent = 1
    with pytest.raises(InDoubt, match="deadline"):
        commit(producer)
    assert fake(producer).calls[-1] == "flush"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "code",
    [
        KafkaError._TIMED_OUT,
        KafkaError._STATE,
        KafkaError.UNKNOWN,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError._MSG_TIMED_OUT,
    ],
)
def test_a_failed_step_leaves_the_commit_in_doubt_and_is_not_sent_again(
    producer: TransactionalProducer, step: str, code: int
) -> None:
    fake(producer).failures = {step: KafkaError(code)}
    with pytest.raises(InDoubt) as doubt:
        commit(producer)
    assert not isinstance(doubt.value, Overtaken)
    assert fake(producer).calls[-1] == step
    assert fake(producer).calls.count("offsets") <= 1


@pytest.mark.parametrize(("returning", "step"), [(0, "sending the offsets"), (1, "committing")])
def test_a_call_that_hangs_leaves_the_commit_in_doubt(
    producer: TransactionalProducer, bounded: Bounded, returning: int, step: str
) -> None:
    bounded.hangs_after = returning
    with pytest.raises(InDoubt, match=f"{step} takes longer than 2 s"):
        commit(producer)
    assert bounded.seconds == [ANSWER_SECONDS + GRACE_SECONDS] * (returning + 1)


@pytest.mark.parametrize("step", ["offsets", "commit"])
@pytest.mark.parametrize("code", sorted(OVERTAKEN))
def test_a_membership_that_is_over_is_overtaken(
    producer: TransactionalProducer, step: str, code: int
) -> None:
    fake(producer).failures = {step: KafkaError(code)}
    with pytest.raises(Overtaken):
        commit(producer)


@pytest.mark.parametrize("step", ["produce", "flush", "offsets", "commit"])
@pytest.mark.parametrize("code", sorted(REFUSED))
def test_what_would_be_refused_again_ends_the_process(
    producer: TransactionalProducer, step: str, code: int
) -> None:
    fake(producer).failures = {step: KafkaError(code)}
    with pytest.raises(Crash, match="refused") as crash:
        commit(producer)
    assert not isinstance(crash.value, InDoubt)


def test_what_passes_is_no_refusal() -> None:
    assert not RETRIABLE & REFUSED
    assert not (RETRIABLE | REFUSED) & (FENCED | OVERTAKEN)


@pytest.mark.parametrize("step", ["offsets", "commit"])
def test_another_process_with_the_instance_id_in_the_group_fences(
    producer: TransactionalProducer, step: str
) -> None:
    fake(producer).failures = {step: KafkaError(KafkaError.FENCED_INSTANCE_ID)}
    with pytest.raises(Fenced, match="COVERSUMM_INSTANCE_ID") as fenced:
        commit(producer)
    assert fenced.value.exit_code == 4


def fenced_commit(producer: TransactionalProducer, code: int) -> None:
    fake(producer).failures = {"offsets": KafkaError(code)}
    commit(producer)


@pytest.mark.parametrize("code", sorted(FENCED))
def test_a_lost_transactional_id_is_a_doubt_until_it_is_lost_again_and_again(
    producer: TransactionalProducer, code: int
) -> None:
    """A broker that gave up on a paused worker, or a late call of a client before, is no other
    worker.
    """
    for _ in range(FENCED_AGAIN - 1):
        with pytest.raises(InDoubt):
            fenced_commit(producer, code)
        producer.decide()
    with pytest.raises(Fenced, match="again and again"):
        fenced_commit(producer, code)


def test_an_id_that_is_lost_after_the_transactions_timeout_is_the_coordinators_doing(
    producer: TransactionalProducer, clock: FakeClock
) -> None:
    """Over a slow link it gives up on one transaction after another: no other worker has this
    instance id.
    """

    def write_slowly(timeout: float) -> int:
        clock.now_s += TRANSACTION_TIMEOUT_S
        return 0

    for _ in range(3 * FENCED_AGAIN):
        fake(producer).flush = write_slowly
        with pytest.raises(InDoubt):
            fenced_commit(producer, KafkaError.PRODUCER_FENCED)
        producer.decide()


@pytest.mark.parametrize("between", ["a commit", "another failure"])
def test_only_what_is_lost_in_a_row_counts(producer: TransactionalProducer, between: str) -> None:
    for _ in range(FENCED_AGAIN):
        for _ in range(FENCED_AGAIN - 1):
            with pytest.raises(InDoubt):
                fenced_commit(producer, KafkaError._FENCED)
            producer.decide()
        if between == "a commit":
            commit(producer)
        else:
            with pytest.raises(InDoubt):
                fenced_commit(producer, KafkaError._TIMED_OUT)
            producer.decide()


def test_a_fenced_delivery_report_is_a_lost_id(producer: TransactionalProducer) -> None:
    for _ in range(FENCED_AGAIN - 1):
        fake(producer).refused = {"changelog": KafkaError(KafkaError._FENCED)}
        with pytest.raises(InDoubt):
            commit(producer)
        producer.decide()
    fake(producer).refused = {"changelog": KafkaError(KafkaError._FENCED)}
    with pytest.raises(Fenced):
        commit(producer)


@pytest.mark.parametrize(
    ("fatal", "ending"), [(KafkaError.MSG_SIZE_TOO_LARGE, Crash), (None, InDoubt)]
)
def test_a_fatal_error_that_flush_loses_is_asked_for(
    producer: TransactionalProducer, fatal: int | None, ending: type[Exception]
) -> None:
    broker = fake(producer)
    broker.failures = {} if fatal is None else {"abort": KafkaError(fatal)}

    def flush(timeout: float) -> int:
        raise SystemError("returned NULL without setting an exception")

    broker.flush = flush
    with pytest.raises(ending) as failed:
        commit(producer)
    assert type(failed.value) is ending


@pytest.mark.parametrize(
    ("failure", "ending"),
    [
        (Unanswered("brokers are away"), InDoubt),  # the next takeover checks again
        (Crash("a topic was created again"), Crash),
    ],
)
def test_a_check_that_fails_ends_the_commit(
    producer: TransactionalProducer, failure: Exception, ending: type[Exception]
) -> None:
    def check(last_offsets: Mapping[int, int]) -> None:
        raise failure

    with pytest.raises(ending, match=str(failure)) as failed:
        producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11}, MEMBER, check)
    assert type(failed.value) is ending
    assert fake(producer).calls[-1] == "flush"


# -- patience --------------------------------------------------------------------------------------


def test_each_doubt_gives_the_next_commit_more_time_and_a_commit_takes_it_back(
    producer: TransactionalProducer,
) -> None:
    waited: list[set[float]] = []
    for failures in ({"commit": KafkaError(KafkaError._TIMED_OUT)}, {}, {}):
        client = fake(producer)
        client.failures = failures
        client.timeouts.clear()
        if failures:
            with pytest.raises(InDoubt):
                commit(producer)
            producer.decide()
        else:
            commit(producer)
        waited.append(client.timeouts - {25.0})
    assert waited == [{ANSWER_SECONDS}, {2 * ANSWER_SECONDS}, {ANSWER_SECONDS}]


# -- the decision ----------------------------------------------------------------------------------


def doubtful(producer: TransactionalProducer) -> None:
    """A commit without an answer."""
    fake(producer).failures = {"commit": KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(InDoubt):
        commit(producer)


@pytest.mark.parametrize("step", ["list", "init"])
@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (KafkaError._TRANSPORT, Unanswered),
        (KafkaError.CONCURRENT_TRANSACTIONS, Unanswered),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Crash),
    ],
)
def test_an_id_that_is_not_taken_over_is_asked_for_again_unless_it_is_refused(
    producer: TransactionalProducer,
    producers: Producers,
    step: str,
    code: int,
    ending: type[Exception],
) -> None:
    doubtful(producer)
    producers.failures = {step: KafkaError(code)}
    with pytest.raises(ending) as failed:
        producer.decide()
    assert type(failed.value) is ending
    producers.failures = {}
    producers.last.failures = {}
    producer.decide()
    commit(producer)


def test_only_what_is_open_is_decided(
    producer: TransactionalProducer, producers: Producers
) -> None:
    commit(producer)
    producer.decide_open()
    assert len(producers.made) == 1
    doubtful(producer)
    producer.decide_open()
    assert producers.last.calls == ["list", "init", "poll"]
    producer.decide_open()
    assert len(producers.made) == 2


def test_a_takeover_of_the_id_that_hangs_is_asked_for_again(
    producer: TransactionalProducer, bounded: Bounded
) -> None:
    doubtful(producer)
    bounded.hangs_after = 0
    with pytest.raises(Unanswered, match="taking over group-0 takes longer than"):
        producer.decide()


# -- what is checked -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "membership", [Membership(-1, ""), Membership(-1, "member"), Membership(3, "")]
)
def test_a_commit_without_a_membership_is_refused_before_it_begins(
    producer: TransactionalProducer, membership: Membership
) -> None:
    """The broker would accept it without any check."""
    with pytest.raises(Crash, match="membership"):
        commit(producer, membership)
    assert fake(producer).calls == []


def test_a_queue_that_does_not_drain_ends_the_commit(
    producer: TransactionalProducer, clock: FakeClock
) -> None:
    fake(producer).room, fake(producer).drains = 2, False
    clock.tick_s = 1.0
    with pytest.raises(InDoubt, match="deadline"):
        commit(producer)
    assert "flush" not in fake(producer).calls


def test_a_broker_without_transactions_is_one_line(
    producer: TransactionalProducer,
) -> None:
    fake(producer).failures = {"init": KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(SetupError, match=r"transactional producer \(_TIMED_OUT"):
        producer.start()


@pytest.mark.parametrize(("decided_after", "is_started"), [(60.0, True), (200.0, False)])
def test_a_transaction_that_brokers_still_decide_is_waited_for(
    producer: TransactionalProducer,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    decided_after: float,
    is_started: bool,
) -> None:
    """The last holder died while a leader that has to take the transaction's end was frozen."""
    fake(producer).failures = {"init": KafkaError(KafkaError.CONCURRENT_TRANSACTIONS)}
    began, sleep = clock.now_s, clock.sleep

    def decide_meanwhile(seconds: float) -> None:
        sleep(seconds)
        if clock.now_s > began + decided_after:
            fake(producer).failures.clear()

    monkeypatch.setattr(clock, "sleep", decide_meanwhile)
    if is_started:
        producer.start()
    else:
        with pytest.raises(SetupError, match="CONCURRENT_TRANSACTIONS"):
            producer.start()
    assert (clock.now_s > began + decided_after) is is_started


def test_notes_are_committed_beside_their_offsets(producer: TransactionalProducer) -> None:
    producer.commit(MESSAGES, "changelog", ROWS, "in", {0: 11, 1: 22}, MEMBER, notes={1: "a note"})
    assert fake(producer).notes == {0: "", 1: "a note"}
    commit(producer)
    assert fake(producer).notes == {
        0: "",
        1: "",
    }  # whose offset has moved without one has none any more
