"""A transaction of whoever it is: no group is joined, the offsets are those of a standalone
consumer's group.

The order of the steps and the failure of each: `test_producer`, the worker's use of it. Here is
what the tools need besides.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.fake_producer import Bounded, FakeProducer, Producers
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.kafka.errors import FENCED
from worker.kafka.transactions import (
    ABORT_SECONDS,
    GRACE_SECONDS,
    RENEWAL_SECONDS,
    Hung,
    TransactionError,
    Transactions,
    UnwrittenError,
)

RECORDS = [("in", 0, b"k", b"a", ()), ("in", 1, None, None, [("h", b"1")])]
METADATA = object()  # of a consumer: handed on as it is


def made(abort_seconds: float | None = 30.0, clock: FakeClock | None = None) -> Transactions:
    return Transactions(
        FakeClients(producer=FakeProducer),
        "tool",
        timeout_ms=10_000,
        write_seconds=25.0,
        abort_seconds=abort_seconds,
        options={"message.max.bytes": 10**9},
        clock=clock or FakeClock(),
        bounded=Bounded(),
    )


def fake(transactions: Transactions) -> Any:
    return transactions._producer


def commit(transactions: Transactions, **more: Any) -> None:
    with transactions.transaction(3.0) as transaction:
        transaction.produce(RECORDS)
        transaction.commit([TopicPartition("letters", 0, 5, "metadata")], METADATA, **more)


@pytest.fixture
def transactions(producers: Producers, bounded: Bounded) -> Transactions:
    """As the worker has them: what fails is decided by another client."""
    return Transactions(
        FakeClients(producer=producers),
        "id",
        timeout_ms=10_000,
        write_seconds=25.0,
        abort_seconds=None,
        options={},
        clock=FakeClock(),
        bounded=bounded,
    )


# -- a client that is suspect ----------------------------------------------------------------------


def test_a_suspect_client_is_replaced_by_the_next_question_and_takes_over_the_id(
    transactions: Transactions, producers: Producers
) -> None:
    transactions.suspect()
    assert len(producers.made) == 1
    transactions.ask("t", 2.0)
    old, new = producers.made
    assert "list" not in old.calls
    assert new.calls[:2] == ["list", "init"]
    assert new.config == old.config
    transactions.ask("t", 2.0)  # which does it once
    commit(transactions)
    assert len(producers.made) == 2
    assert "commit" in new.calls
    assert "begin" not in old.calls


@pytest.mark.parametrize("step", ["list", "init"])
def test_a_suspect_client_stays_suspect_where_no_new_one_gets_an_answer(
    transactions: Transactions, producers: Producers, step: str
) -> None:
    transactions.suspect()
    producers.failures = {step: KafkaError(KafkaError._TIMED_OUT)}
    for _ in range(2):
        with pytest.raises(KafkaException):
            transactions.ask("t", 2.0)
    with pytest.raises(TransactionError):
        commit(transactions)
    assert len(producers.made) == {"list": 4, "init": 2}[step]
    producers.failures = producers.last.failures = {}
    commit(transactions)
    assert "commit" in producers.made[-1].calls


def test_a_client_is_not_replaced_under_an_open_transaction(
    transactions: Transactions, producers: Producers
) -> None:
    with transactions.transaction(3.0) as transaction:
        transactions.suspect()
        transactions.ask("t", 2.0)
        transaction.produce(RECORDS)
        transaction.commit([TopicPartition("letters", 0, 5)], METADATA)
    (only,) = producers.made
    assert only.calls == ["begin", "list", "produce", "produce", "flush", "offsets", "commit"]


# -- a transaction whose end is not known ----------------------------------------------------------

LEFT_OPEN = [
    ("begin", KafkaError._STATE),
    ("flush", KafkaError._TIMED_OUT),
    ("offsets", KafkaError._TIMED_OUT),
    ("commit", KafkaError.UNKNOWN),
]


def fail(transactions: Transactions, step: str, code: int) -> Any:
    """A transaction that fails so; its client."""
    client = fake(transactions)
    client.failures = {step: KafkaError(code)}
    with pytest.raises(TransactionError):
        commit(transactions)
    return client


@pytest.mark.parametrize(("step", "code"), LEFT_OPEN)
def test_a_new_client_decides_and_continues(
    transactions: Transactions, producers: Producers, bounded: Bounded, step: str, code: int
) -> None:
    failed = fail(transactions, step, code)
    calls = list(failed.calls)
    assert calls[-1] == step  # neither aborted nor sent again
    transactions.decide(5.0)
    assert fake(transactions) is producers.last is not failed
    assert fake(transactions).calls == ["list", "init", "poll"]
    assert bounded.seconds[-1] == RENEWAL_SECONDS + GRACE_SECONDS
    commit(transactions)
    assert failed.calls == calls
    assert len(producers.made) == 2


@pytest.mark.parametrize("step", ["list", "init"])
def test_a_decision_that_gets_no_answer_leaves_the_transaction_undecided(
    transactions: Transactions, producers: Producers, step: str
) -> None:
    failed = fail(transactions, "commit", KafkaError._TIMED_OUT)
    producers.failures = {step: KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        transactions.decide(5.0)
    producers.failures = producers.last.failures = {}
    commit(transactions)
    assert len(producers.made) == {"list": 3, "init": 2}[step]
    assert "begin" in producers.last.calls
    assert failed.calls.count("begin") == 1


def test_nobody_takes_over_the_id_between_a_failure_and_its_decision(
    transactions: Transactions, producers: Producers
) -> None:
    failed = fail(transactions, "commit", KafkaError._TIMED_OUT)
    transactions.suspect()
    transactions.ask("t", 2.0)
    assert producers.made == [failed]
    assert failed.calls[-1] == "list"


def test_the_contact_is_asked_for_while_a_decision_is_under_way(
    transactions: Transactions, producers: Producers, bounded: Bounded
) -> None:
    """It asks over the client that there is, and neither waits nor makes one more."""
    failed = fail(transactions, "commit", KafkaError._TIMED_OUT)

    def asked_meanwhile(seconds: float, work: Any) -> Any:
        asking = threading.Thread(target=transactions.ask, args=("t", 2.0))
        asking.start()
        asking.join(PATIENCE_SECONDS)
        assert not asking.is_alive()
        return Bounded.__call__(bounded, seconds, work)

    transactions.bounded = asked_meanwhile
    transactions.decide(5.0)
    assert len(producers.made) == 2
    assert failed.calls[-1] == "list"
    assert producers.last.calls == ["list", "init", "poll"]


@pytest.mark.parametrize("returning", [0, 1])
def test_a_call_that_hangs_is_left_and_its_client_never_used_again(
    transactions: Transactions, producers: Producers, bounded: Bounded, returning: int
) -> None:
    """Of the two steps of a commit; the late one is refused by the broker, which knows a newer
    client under the id.
    """
    bounded.hangs_after = returning
    with pytest.raises(Hung):
        commit(transactions)
    bounded.hangs_after = None
    (hung,) = producers.made
    assert bounded.seconds == [3.0 + GRACE_SECONDS] * (returning + 1)
    (late,) = bounded.left
    transactions.decide(5.0)
    before = list(hung.calls)
    late()
    assert hung.calls == [*before, ["offsets", "commit"][returning]]  # and none after it
    commit(transactions)
    assert hung.calls.count("begin") == 1
    assert producers.last.calls[-1] == "commit"


def test_a_decision_that_hangs_decides_nothing(
    transactions: Transactions, producers: Producers, bounded: Bounded
) -> None:
    fail(transactions, "commit", KafkaError._TIMED_OUT)
    bounded.hangs_after = 0
    with pytest.raises(Hung):
        transactions.decide(5.0)
    bounded.hangs_after = None
    transactions.decide(5.0)
    assert len(producers.made) == 3
    assert fake(transactions) is producers.last


def test_what_is_refused_by_a_check_is_aborted_at_once(transactions: Transactions) -> None:
    """Nothing is in doubt, and readers need not wait for the broker's timeout."""

    def check() -> None:
        raise SetupError("another fingerprint")

    with pytest.raises(SetupError):
        commit(transactions, check=check)
    assert fake(transactions).calls[-2:] == ["flush", "abort"]
    assert ABORT_SECONDS in fake(transactions).timeouts


# -- what the tools need ---------------------------------------------------------------------------


ROWS: dict[bytes, bytes | None] = {b"a": b"1", b"b": None, b"c": b"3", b"d": b"4"}


@pytest.mark.parametrize("room", [1_000_000, 3, 1])
def test_rows_are_all_handed_over_the_last_one_last_and_its_offset_is_reported(room: int) -> None:
    """Also where the queue has not room for all at once: then it is waited for."""
    transactions = made()
    last: dict[int, int] = {}
    with transactions.transaction(3.0) as transaction:
        fake(transactions).room = room
        transaction.produce_rows("log", 7, ROWS, last)
        transaction.produce_rows("log", 2, {b"only": b"1"}, last)
        transaction.produce(RECORDS)
        transaction.commit([], METADATA)
    produced = fake(transactions).produced
    assert [(partition, key, value) for _, partition, key, value, _ in produced[:5]] == [
        *((7, key, value) for key, value in ROWS.items()),
        (2, b"only", b"1"),
    ]
    assert last == {7: 104, 2: 105}
    # thousands of them would take the interpreter from whoever computes
    assert len(fake(transactions).reports) == 2


@pytest.mark.parametrize("step", ["begin", "produce", "flush", "offsets", "commit"])
@pytest.mark.parametrize(("abort_seconds", "aborts"), [(30.0, ["abort"]), (None, [])])
def test_a_failed_step_is_followed_by_an_abort_where_the_process_continues(
    step: str, abort_seconds: float | None, aborts: list[str]
) -> None:
    transactions = made(abort_seconds)
    fake(transactions).failures = {step: KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(TransactionError, match=r"^_TIMED_OUT: ") as failed:
        commit(transactions)
    assert not failed.value.fenced
    calls = fake(transactions).calls
    assert calls[calls.index(step) + 1 :] == aborts


def test_records_that_are_not_written_in_time_abort() -> None:
    transactions = made()
    fake(transactions).unsent = 1
    with pytest.raises(UnwrittenError):
        commit(transactions)
    assert fake(transactions).calls[-2:] == ["flush", "abort"]


@pytest.mark.parametrize("code", sorted(FENCED))
def test_a_fenced_producer_with_another_error_first_is_known_by_its_abort(
    code: int,
) -> None:
    transactions = made()
    fake(transactions).failures = {
        "commit": KafkaError(KafkaError._STATE),
        "abort": KafkaError(code),
    }
    with pytest.raises(TransactionError) as failed:
        commit(transactions)
    assert failed.value.fenced


def test_another_error_of_the_abort_does_not_hide_the_failure() -> None:
    transactions = made()
    fake(transactions).failures = dict.fromkeys(["commit", "abort"], KafkaError(KafkaError._STATE))
    fake(transactions).failures["commit"] = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(TransactionError) as failed:
        commit(transactions)
    assert failed.value.error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_refused_record_does_not_fail_the_next_transaction() -> None:
    transactions = made()
    fake(transactions).refused = {"in": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)}
    with pytest.raises(TransactionError, match="MSG_SIZE_TOO_LARGE"):
        commit(transactions)
    fake(transactions).refused = fake(transactions).failures = {}
    commit(transactions)
    assert fake(transactions).calls[-1] == "commit"


def test_the_first_refusal_is_the_one_that_is_reported() -> None:
    """Those after it may only say that the queue was purged."""
    transactions = made()
    fake(transactions).refused = {
        "in": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE),
        "after": KafkaError(KafkaError._PURGE_QUEUE),
    }

    def send() -> None:
        with transactions.transaction(3.0) as transaction:
            transaction.produce([RECORDS[0], ("after", 0, b"k", b"b", ())])
            transaction.commit([TopicPartition("letters", 0, 5, "metadata")], METADATA)

    with pytest.raises(TransactionError) as refused:
        send()
    assert refused.value.error.code() == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.parametrize("purged", [KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT])
@pytest.mark.parametrize(
    ("begin_error", "code"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        (KafkaError._STATE, None),
    ],
)
def test_where_all_records_are_purged_the_client_is_asked_why(
    purged: int, begin_error: int, code: int | None
) -> None:
    """Or a worker would try again and again what it is not allowed to do."""
    transactions = made()

    def send() -> None:
        with transactions.transaction(3.0) as transaction:
            fake(transactions).refused = {"in": KafkaError(purged)}
            fake(transactions).failures = {"begin": KafkaError(begin_error)}
            transaction.produce_rows("in", 0, {b"only": b"1"}, {})
            transaction.commit([TopicPartition("letters", 0, 5, "metadata")], METADATA)

    with pytest.raises(TransactionError) as refused:
        send()
    assert refused.value.error.code() == (code or purged)
    assert "commit" not in fake(transactions).calls
