"""What a failed transaction of `dlq send` ends in (whole runs on a real broker:
tests/real_kafka/test_tools.py).
"""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.fake_clients import FakeClients
from tests.harness.fake_producer import FakeProducer
from worker.errors import CoversummError, Crash, Fenced, SetupError
from worker.events import Record
from worker.operations.letter_sending import LetterProducer
from worker.settings import Settings

SETTINGS = Settings(app_id="app", input_topic="reviews", transaction_timeout_ms=7_000)
METADATA = object()
SENT = TopicPartition("reviews.dlq", 3, 8)


class Failing(FakeProducer):
    """Fails where a test says so, from its construction on."""

    planned: dict[str, KafkaError]
    last: Any = None

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.failures = dict(self.planned)
        Failing.last = self


def made(**failures: int) -> LetterProducer:
    Failing.planned = {step: KafkaError(code) for step, code in failures.items()}
    letters: Any = SimpleNamespace(group_metadata=METADATA)
    return LetterProducer(SETTINGS, FakeClients(producer=Failing), letters)


def commit(producer: LetterProducer) -> None:
    producer.commit([Record("reviews", 3, 991, 0, b"key", b"value")], SENT)


def test_letters_go_to_where_they_came_from_with_what_was_sent_in_one_transaction() -> None:
    commit(made())
    client = Failing.last
    assert client.calls == ["init", "begin", "produce", "flush", "offsets", "commit"]
    assert client.produced == [("reviews", 3, b"key", b"value", [])]
    assert (client.offsets, client.metadata) == ([("reviews.dlq", 3, 8)], METADATA)
    assert client.config["transactional.id"] == "app-dlq"
    assert client.config["transaction.timeout.ms"] == 7_000


@pytest.mark.parametrize(
    ("failures", "ending", "words"),
    [
        ({"commit": KafkaError._FENCED}, Fenced, "another `dlq send` of app-dlq has started"),
        ({"commit": KafkaError._STATE, "abort": KafkaError._FENCED}, Fenced,
         "no letter is sent twice"),
        ({"offsets": KafkaError.MSG_SIZE_TOO_LARGE}, SetupError, r"raise its max\.message\.bytes"),
        ({"flush": KafkaError._TIMED_OUT}, Crash,
         r"sending dead letters failed \(_TIMED_OUT: .*run it again"),
    ],
)  # fmt: skip
def test_what_a_failure_ends_in(
    failures: dict[str, int], ending: type[CoversummError], words: str
) -> None:
    with pytest.raises(ending, match=words):
        commit(made(**failures))
    assert Failing.last.calls[-1] == "abort"


def test_a_broker_that_takes_too_long_is_a_crash() -> None:
    producer = made()
    Failing.last.unsent = 1
    with pytest.raises(
        Crash, match="timeout for dead letters of partition 3: run `dlq send` again"
    ):
        commit(producer)


def test_a_broker_without_transactions_is_told_in_one_line() -> None:
    with pytest.raises(SetupError, match="did not start a transaction of app-dlq") as refused:
        made(init=KafkaError._TIMED_OUT)
    assert isinstance(refused.value.__cause__, KafkaException)
