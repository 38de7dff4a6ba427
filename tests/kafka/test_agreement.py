"""One record that many processes agree on, over a broker in memory that fences as Kafka does (a
real one: tests/real_kafka).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException

from tests.harness.fake_clients import FakeClients, FakeClock, fake_message
from worker.errors import SetupError
from worker.kafka.agreement import AgreedRecord

TOPIC = "plan"


class Broker:
    """One topic, one transactional id."""

    def __init__(self) -> None:
        self.exists = False
        self.values: list[bytes | None] = []
        self.epoch = 0
        self.created: list[Any] = []
        self.creation: int | None = None  # how it fails
        self.failure: int | None = None  # of a commit
        self.clock = FakeClock()
        self.attempts: list[float] = []  # when the transactional id was taken
        self.when_read: list[Callable[[], None]] = []  # what others do, before the next looks

    # admin

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={TOPIC: None} if self.exists else {})

    def create_topics(self, topics: list[Any]) -> dict[str, Future[None]]:
        self.created += topics
        future: Future[None] = Future()
        code = self.creation or (KafkaError.TOPIC_ALREADY_EXISTS if self.exists else None)
        self.exists = code in (None, KafkaError.TOPIC_ALREADY_EXISTS)
        if code is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return {TOPIC: future}


class Consumer:
    """Reads the topic to its end."""

    def __init__(self, broker: Broker) -> None:
        if broker.when_read:
            broker.when_read.pop(0)()
        self._values = list(broker.values)

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0])})

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Any]:
        (partition,) = asked
        at = {OFFSET_BEGINNING: 0, OFFSET_END: len(self._values)}[partition.offset]
        return [SimpleNamespace(partition=partition.partition, offset=at, error=None)]

    def assign(self, tps: list[Any]) -> None:
        pass

    def consume(self, count: int, timeout: float) -> list[Any]:
        found = [_message(offset, value) for offset, value in enumerate(self._values)]
        return [*found, _message(len(found), None, KafkaError(KafkaError._PARTITION_EOF))]

    def close(self) -> None:
        pass


def _message(offset: int, value: bytes | None, error: KafkaError | None = None) -> Any:
    return fake_message(
        topic=TOPIC, partition=0, offset=offset, key=b"agreed", value=value, error=error,
        timestamp=(1, 0), headers=None,
    )  # fmt: skip


class Producer:
    """Of the one transactional id: who initializes it last is its only holder."""

    def __init__(self, broker: Broker, options: Any) -> None:
        assert options["transactional.id"] == TOPIC
        self._broker = broker
        self._epoch = -1
        self._written: list[bytes | None] = []

    def init_transactions(self, timeout: float) -> None:
        self._broker.attempts.append(self._broker.clock.now_s)
        self._broker.epoch += 1
        self._epoch = self._broker.epoch

    def begin_transaction(self) -> None:
        self._written = []

    def produce(self, topic: str, value: bytes | None, key: bytes, partition: int) -> None:
        assert (topic, partition) == (TOPIC, 0)
        self._written.append(value)

    def commit_transaction(self, timeout: float) -> None:
        if self._broker.failure is not None:
            raise KafkaException(KafkaError(self._broker.failure))
        if self._epoch != self._broker.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED))
        self._broker.values += self._written


def agreed(broker: Broker) -> AgreedRecord:
    clients = FakeClients(
        consumer=lambda: Consumer(broker), producer=lambda options: Producer(broker, options)
    )
    return AgreedRecord(clients, broker, TOPIC, broker.clock)  # type: ignore[arg-type]


def unwanted() -> bytes:
    raise AssertionError("there is one already")


def test_the_first_writes_it_and_all_others_find_it() -> None:
    broker = Broker()
    assert agreed(broker).read() is None
    assert agreed(broker).agree(lambda: b"one") == b"one"
    assert agreed(broker).agree(unwanted) == b"one"
    assert agreed(broker).read() == b"one"
    (topic,) = broker.created
    assert (topic.topic, topic.num_partitions, topic.config) == (
        TOPIC,
        1,
        {"cleanup.policy": "compact"},
    )


def test_who_is_fenced_while_it_writes_finds_what_the_other_wrote() -> None:
    """Both have seen an empty topic; the second takes the transactional id, and the first's commit
    is refused.
    """
    broker = Broker()
    broker.exists = True

    def other() -> None:
        assert agreed(broker).agree(lambda: b"the other's") == b"the other's"

    broker.when_read = [lambda: None, lambda: None, other]
    assert agreed(broker).agree(lambda: b"one") == b"the other's"
    assert broker.values == [b"the other's"]
    assert len(broker.attempts) == 2  # what is there takes the id from nobody


def refused() -> None:
    raise SetupError("shared")


def test_a_new_record_that_is_refused_is_withdrawn() -> None:
    """It is refused once all can read it; one of another process stays."""
    broker = Broker()

    def look() -> None:
        assert broker.values == [b"one"]
        refused()

    with pytest.raises(SetupError, match="shared"):
        agreed(broker).agree(lambda: b"one", look)
    assert agreed(broker).read() is None
    assert agreed(broker).agree(lambda: b"two") == b"two"
    with pytest.raises(SetupError, match="shared"):
        agreed(broker).agree(unwanted, refused)
    assert broker.values == [b"one", None, b"two"]


def test_the_id_is_not_held_while_the_record_is_made() -> None:
    """That may take long, and whoever came meanwhile would be fenced, or fence."""
    broker = Broker()

    def make() -> bytes:
        assert agreed(broker).agree(lambda: b"the other's") == b"the other's"
        return b"one"

    assert agreed(broker).agree(make) == b"the other's"
    assert len(broker.attempts) == 1


def test_what_was_written_since_the_first_look_is_found_by_the_second() -> None:
    broker = Broker()
    broker.exists = True
    broker.when_read = [lambda: None, lambda: broker.values.append(b"the other's")]
    assert agreed(broker).agree(lambda: b"one") == b"the other's"
    assert not broker.attempts


def test_a_topic_that_another_process_creates_first_is_the_same() -> None:
    broker = Broker()
    broker.creation = KafkaError.TOPIC_ALREADY_EXISTS
    assert agreed(broker).agree(lambda: b"one") == b"one"


def test_the_last_record_counts() -> None:
    """Before compaction comes by, a plan that was started over lies behind its former one."""
    broker = Broker()
    broker.exists, broker.values = True, [b"former", b"present"]
    assert agreed(broker).read() == b"present"


@pytest.mark.parametrize(
    ("creation", "failure", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, None, "the topic plan could not be created"),
        (
            None,
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "plan cannot be written .*permission to write",
        ),
        (None, KafkaError._TIMED_OUT, r"plan cannot be written \(_TIMED_OUT"),
    ],
)
def test_what_is_refused_is_one_line(creation: int | None, failure: int | None, says: str) -> None:
    broker = Broker()
    broker.creation, broker.failure = creation, failure
    with pytest.raises(SetupError, match=says):
        agreed(broker).agree(lambda: b"one")


def test_it_is_tried_at_growing_random_intervals_and_not_for_ever() -> None:
    broker = Broker()
    broker.failure = KafkaError._FENCED
    with pytest.raises(
        SetupError, match="not written after 120 s: other processes keep writing it"
    ):
        agreed(broker).agree(lambda: b"one")
    pauses = [later - earlier for earlier, later in pairwise(broker.attempts)]
    for pause, longest in zip(pauses, (0.5, 1, 2, 4, *[8] * 99), strict=False):
        assert longest / 2 <= pause <= longest + 0.01
    assert len(set(pauses)) == len(pauses) > 10
