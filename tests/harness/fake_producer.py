"""librdkafka's transactional producer without a broker: what was called, in which order, and what a
test lets fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from tests.harness.fake_clients import fake_message
from worker.kafka.transactions import Hung

T = TypeVar("T")


class Bounded:
    """Runs what may hang (`worker.kafka.transactions.Within`) at once; what is to hang is kept, for
    a test to run late.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []  # that each call was given
        self.hangs_after: int | None = None  # so many calls that return
        self.left: list[Callable[[], Any]] = []

    def __call__(self, seconds: float, work: Callable[[], T], /) -> T:
        self.seconds.append(seconds)
        if self.hangs_after == 0:
            self.left.append(work)
            raise Hung
        if self.hangs_after is not None:
            self.hangs_after -= 1
        return work()


class Producers:
    """Makes producers, and keeps them in order; `failures` are those of the ones to come."""

    def __init__(self) -> None:
        self.made: list[FakeProducer] = []
        self.failures: dict[str, KafkaError] = {}

    def __call__(self, config: Mapping[str, Any]) -> FakeProducer:
        producer = FakeProducer(config)
        producer.failures = dict(self.failures)
        self.made.append(producer)
        return producer

    @property
    def last(self) -> FakeProducer:
        """The one in use."""
        return self.made[-1]


class FakeProducer:
    """librdkafka's producer: records what was called, fails where a test wants it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.calls: list[str] = []
        self.produced: list[tuple[Any, ...]] = []
        self.reports: list[Callable[[], None]] = []
        self.offsets: list[tuple[str, int, int]] = []
        self.notes: dict[int, str] = {}
        self.metadata = b""
        self.timeouts: set[float] = set()  # of the steps of a commit, in seconds
        self.list_timeouts: list[float] = []
        self.failures: dict[str, KafkaError] = {}
        self.refused: dict[str, KafkaError] = {}  # by topic: what its delivery reports say
        self.unsent = 0
        self.room = 1_000_000
        self.drains = True

    def _step(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise KafkaException(self.failures[name])

    def list_topics(self, topic: str | None, timeout: float) -> None:
        self.list_timeouts.append(timeout)
        self._step("list")

    def init_transactions(self, timeout: float) -> None:
        self._step("init")

    def begin_transaction(self) -> None:
        self._step("begin")

    def produce(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int,
        *,
        on_delivery: Any,
        headers: list[Any],
    ) -> None:
        if self.room <= 0:
            raise BufferError
        self.room -= 1
        self._step("produce")
        self.produced.append((topic, partition, key, value, headers))
        offset, error = 100 + len(self.produced), self.refused.get(topic)
        if on_delivery is not None:
            self.reports.append(
                lambda: on_delivery(error, fake_message(partition=partition, offset=offset))
            )
        elif error is not None:
            # what the transaction failed of, its next step says
            self.failures.setdefault("offsets", error)

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        """Those that do not fit are marked, and the others are queued."""
        queued = 0
        for message in messages:
            try:
                self.produce(
                    topic, message["value"], message["key"], partition, on_delivery=None, headers=[]
                )
                queued += 1
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as refused:
                message["_error"] = refused.args[0]
        return queued

    def poll(self, timeout: float) -> int:
        self.calls.append("poll")
        self.room += self.drains
        return 0

    def flush(self, timeout: float) -> int:
        self.timeouts.add(timeout)
        self._step("flush")
        for report in self.reports:
            report()
        return self.unsent

    def send_offsets_to_transaction(
        self, offsets: list[Any], metadata: bytes, timeout: float
    ) -> None:
        self.timeouts.add(timeout)
        self._step("offsets")
        self.offsets = [(tp.topic, tp.partition, tp.offset) for tp in offsets]
        self.notes = {tp.partition: tp.metadata or "" for tp in offsets}
        self.metadata = metadata

    def commit_transaction(self, timeout: float) -> None:
        self.timeouts.add(timeout)
        self._step("commit")

    def abort_transaction(self, timeout: float) -> None:
        self.timeouts.add(timeout)
        self._step("abort")
