"""A transaction of whoever it is: no group is joined, the offsets are those of a standalone consumer's group.

The order of the steps and the failure of each: `test_producer`, the worker's use of it. Here is what the tools need besides.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.fake_producer import FakeProducer
from worker.kafka.transaction import FENCED, TransactionError, Transactions, UnwrittenError

RECORDS = [("in", 0, b"k", b"a", ()), ("in", 1, None, None, [("h", b"1")])]
METADATA = object()  # of a consumer: handed on as it is


def made(abort_seconds: float | None = 30.0, clock: FakeClock | None = None) -> Transactions:
    return Transactions(
        FakeClients(producer=FakeProducer),
        "tool",
        timeout_ms=10_000,
        deadline_seconds=25.0,
        abort_seconds=abort_seconds,
        options={"message.max.bytes": 10**9},
        clock=clock or FakeClock(),
    )


def fake(transactions: Transactions) -> Any:
    return transactions._producer


def commit(transactions: Transactions, **more: Any) -> None:
    with transactions.transaction():
        transactions.produce(RECORDS)
        transactions.commit([TopicPartition("letters", 0, 5, "metadata")], METADATA, **more)


class Producers:
    """Hands out producers; `failures` are those of the ones to come."""

    def __init__(self) -> None:
        self.made: list[FakeProducer] = []
        self.failures: dict[str, KafkaError] = {}

    def __call__(self, config: Any) -> FakeProducer:
        producer = FakeProducer(config)
        producer.failures = dict(self.failures)
        self.made.append(producer)
        return producer


@pytest.fixture
def producers() -> Producers:
    return Producers()


def over(producers: Producers) -> Transactions:
    return Transactions(
        FakeClients(producer=producers),
        "id",
        timeout_ms=10_000,
        deadline_seconds=25.0,
        abort_seconds=None,
        options={},
        clock=FakeClock(),
    )


def test_a_suspect_client_is_replaced_by_the_next_question_and_takes_over_the_id(
    producers: Producers,
) -> None:
    transactions = over(producers)
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


def test_a_suspect_client_is_replaced_before_the_next_transaction(producers: Producers) -> None:
    transactions = over(producers)
    transactions.suspect()
    commit(transactions)
    old, new = producers.made
    assert old.calls == []
    assert [call for call in new.calls if call in ("init", "begin", "commit")] == ["init", "begin", "commit"]


@pytest.mark.parametrize("step", ["list", "init"])
def test_a_suspect_client_stays_suspect_where_no_new_one_gets_an_answer(
    producers: Producers, step: str
) -> None:
    transactions = over(producers)
    transactions.suspect()
    producers.failures = {step: KafkaError(KafkaError._TIMED_OUT)}
    for _ in range(2):
        with pytest.raises(KafkaException):
            transactions.ask("t", 2.0)
    with pytest.raises(TransactionError):
        commit(transactions)
    assert len(producers.made) == 4
    producers.failures = {}
    commit(transactions)
    assert "commit" in producers.made[-1].calls


def test_a_client_is_not_replaced_under_an_open_transaction(producers: Producers) -> None:
    transactions = over(producers)
    with transactions.transaction():
        transactions.suspect()
        transactions.ask("t", 2.0)
        transactions.produce(RECORDS)
        transactions.commit([TopicPartition("letters", 0, 5)], METADATA)
    (only,) = producers.made
    assert only.calls == ["begin", "list", "produce", "produce", "flush", "offsets", "commit"]


def test_records_and_offsets_go_together_under_the_metadata_of_any_consumer() -> None:
    transactions = made()
    transactions.take_over(30)
    commit(transactions)
    client = fake(transactions)
    assert client.calls == ["init", "begin", "produce", "produce", "flush", "offsets", "commit"]
    assert client.produced == [("in", 0, b"k", b"a", []), ("in", 1, None, None, [("h", b"1")])]
    assert client.offsets == [("letters", 0, 5)]
    assert client.metadata is METADATA
    assert client.config["transactional.id"] == "tool"
    assert client.config["message.max.bytes"] == 10**9


def test_last_offsets_are_told_for_the_records_that_are_to_be_watched() -> None:
    transactions = made()
    last: dict[int, int] = {}
    with transactions.transaction():
        transactions.produce(RECORDS)
        transactions.produce([*RECORDS, RECORDS[0]], last)
        transactions.commit([], METADATA)
    assert last == {0: 105, 1: 104}


@pytest.mark.parametrize("step", ["begin", "produce", "flush", "offsets", "commit"])
@pytest.mark.parametrize(("abort_seconds", "aborts"), [(30.0, ["abort"]), (None, [])])
def test_a_failed_step_is_followed_by_an_abort_where_the_process_goes_on(
    step: str, abort_seconds: float | None, aborts: list[str]
) -> None:
    transactions = made(abort_seconds)
    fake(transactions).failures = {step: KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(TransactionError, match=r"^_TIMED_OUT: ") as failed:
        commit(transactions)
    assert not failed.value.fenced
    calls = fake(transactions).calls
    assert calls[calls.index(step) + 1 :] == aborts


def test_what_goes_wrong_inside_aborts_and_is_raised_as_it_is() -> None:
    transactions = made()

    def check() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit(transactions, check=check)
    assert fake(transactions).calls[-2:] == ["flush", "abort"]


def test_records_that_are_not_written_in_time_abort() -> None:
    transactions = made()
    fake(transactions).unsent = 1
    with pytest.raises(UnwrittenError):
        commit(transactions)
    assert fake(transactions).calls[-2:] == ["flush", "abort"]


@pytest.mark.parametrize("code", sorted(FENCED))
def test_a_fenced_producer_that_is_told_something_else_first_is_known_by_its_abort(code: int) -> None:
    transactions = made()
    fake(transactions).failures = {"commit": KafkaError(KafkaError._STATE), "abort": KafkaError(code)}
    with pytest.raises(TransactionError) as failed:
        commit(transactions)
    assert failed.value.fenced


def test_what_else_an_abort_is_told_does_not_hide_the_failure() -> None:
    transactions = made()
    fake(transactions).failures = dict.fromkeys(["commit", "abort"], KafkaError(KafkaError._STATE))
    fake(transactions).failures["commit"] = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(TransactionError) as failed:
        commit(transactions)
    assert failed.value.error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_failure_tells_how_long_the_transaction_took() -> None:
    clock = FakeClock()
    transactions = made(clock=clock)
    fake(transactions).failures = {"offsets": KafkaError(KafkaError._FENCED)}
    with pytest.raises(TransactionError) as failed:
        commit(transactions, check=lambda: clock.sleep(7.0))
    assert failed.value.seconds == 7.0


def test_a_refused_record_does_not_fail_the_next_transaction() -> None:
    transactions = made()
    fake(transactions).refused = {"in": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)}
    with pytest.raises(TransactionError, match="MSG_SIZE_TOO_LARGE"):
        commit(transactions)
    fake(transactions).refused = {}
    fake(transactions).reports = []
    commit(transactions)
    assert fake(transactions).calls[-1] == "commit"


def test_the_first_refusal_is_the_one_that_is_told() -> None:
    """Those after it may only say that the queue was purged."""
    transactions = made()
    fake(transactions).refused = {
        "in": KafkaError(KafkaError.MSG_SIZE_TOO_LARGE),
        "after": KafkaError(KafkaError._PURGE_QUEUE),
    }

    def send() -> None:
        with transactions.transaction():
            transactions.produce([RECORDS[0], ("after", 0, b"k", b"b", ())])
            transactions.commit([TopicPartition("letters", 0, 5, "metadata")], METADATA)

    with pytest.raises(TransactionError) as refused:
        send()
    assert refused.value.error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_takeover_that_is_not_granted_is_the_brokers_own_error() -> None:
    transactions = made()
    fake(transactions).failures = {"init": KafkaError(KafkaError._TIMED_OUT)}
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        transactions.take_over(1)
