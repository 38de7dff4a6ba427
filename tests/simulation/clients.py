"""The libraries the worker calls, over the broker and the disks in memory: confluent-kafka,
aiokafka's thread, rocksdict.

Everything above them is the worker's own code. Each call passes a named *point* of the process that
makes it (`Process.call`): there the simulation may kill the process, park the call, or fail it,
before or after it took effect.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar

from aiokafka.errors import NodeNotReadyError
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, TopicPartition
from faust.types import TP

from tests.harness.consumer_thread import ConsumerThread, Fetched
from tests.simulation.broker import ABORTED, COMMITTED, Broker, Clock, Entry, Log
from tests.simulation.fibers import Fiber
from worker.state import MemoryRows
from worker.storage.rows import NotOpen
from worker.stream.gate import OFFSET_KEY

POLL_SECONDS = 1.0
"""How long a fetch that finds nothing waits for something."""
BOOKKEEPING = b"__faust\0"
"""What the gate notes for itself in a database begins so."""
T = TypeVar("T")


class Caller(Protocol):
    """The process behind a client."""

    broker: Broker
    restore_rows: int

    def call(self, point: str, action: Callable[[], T]) -> T:
        """Do it, unless something happens at this point."""


def _poll(clock: Clock, has_news: Callable[[], bool]) -> None:
    """Wait for news, not for ever."""
    until = clock.now + POLL_SECONDS
    Fiber.park()
    Fiber.wait_while(lambda: clock.now < until and not has_news())


# -- confluent-kafka -------------------------------------------------------------------------------


class Producer:
    """A transactional producer: records wait in its queue until `flush`."""

    def __init__(self, process: Caller, transactional_id: str) -> None:
        self._process = process
        self._broker = process.broker
        self._id = transactional_id
        self._epoch = -1
        self._queue: list[tuple[Any, ...]] = []
        self._refused: Exception | None = None  # of a record without a delivery callback

    def list_topics(self, topic: str | None, timeout: float) -> None:
        """Any broker answers."""

    def init_transactions(self, timeout: float) -> None:
        """Fence the last holder of the id."""
        self._epoch = self._process.call("init", lambda: self._broker.init_producer(self._id))

    def begin_transaction(self) -> None:
        """Open a transaction."""
        self._refused = None
        self._process.call("begin", lambda: self._broker.begin(self._id, self._epoch))

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, *, on_delivery: Any, headers: Any
    ) -> None:
        """Put a record into the queue."""
        self._queue.append((topic, value, key, partition, on_delivery, tuple(headers)))

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        """Put records into the queue."""
        for message in messages:
            self.produce(
                topic, message["value"], message["key"], partition, on_delivery=None, headers=()
            )
        return len(messages)

    def poll(self, timeout: float) -> int:
        """Nothing: `flush` sends."""
        return 0

    def flush(self, timeout: float) -> int:
        """Send the queue; a refused record goes to its callback, and fails the transaction."""
        self._process.call("flush", lambda: None)
        for topic, value, key, partition, on_delivery, headers in self._queue:
            place = (topic, partition)
            send = lambda p=place, k=key, v=value, h=headers: self._broker.produce(  # noqa: E731
                self._id, self._epoch, p, k, v, h
            )
            try:
                offset = self._process.call("produce", send)
            except Exception as refused:
                if on_delivery is not None:
                    on_delivery(refused.args[0], None)
                self._refused = self._refused or refused
            else:
                if on_delivery is not None:
                    on_delivery(None, _Delivered(partition, offset))
        self._queue = []
        return 0

    def send_offsets_to_transaction(
        self, offsets: Sequence[Any], metadata: bytes, timeout: float
    ) -> None:
        """Source offsets, checked against the group."""
        self._check()
        (generation,) = struct.unpack_from("<i", metadata, len(b"CGMDv2:"))
        _, member_id, *_ = metadata[len(b"CGMDv2:") + 4 :].split(b"\0")
        wanted = {offset.partition: offset.offset for offset in offsets}
        notes = {offset.partition: offset.metadata or "" for offset in offsets}
        member = generation, member_id.decode()
        self._process.call(
            "offsets",
            lambda: self._broker.add_offsets(self._id, self._epoch, wanted, member, notes),
        )

    def commit_transaction(self, timeout: float) -> None:
        """Commit; whatever still waits goes first."""
        self.flush(timeout)
        self._check()
        self._process.call("commit", lambda: self._broker.end(self._id, self._epoch, COMMITTED))

    def _check(self) -> None:
        if self._refused is not None:
            raise self._refused

    def abort_transaction(self, timeout: float) -> None:
        """Abort."""
        self._process.call("abort", lambda: self._broker.end(self._id, self._epoch, ABORTED))


class _Delivered(NamedTuple):
    partition_: int
    offset_: int

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_


class _Message(NamedTuple):
    place: tuple[str, int]
    entry: Entry | None
    end: int

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.end if self.entry is None else self.entry.offset

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF, "end") if self.entry is None else None

    def key(self) -> bytes | None:
        return None if self.entry is None else self.entry.key

    def value(self) -> bytes | None:
        return None if self.entry is None else self.entry.value


class Consumer:
    """A consumer of explicit assignments, and the questions about offsets."""

    def __init__(self, process: Caller, *, committed: bool) -> None:
        self._process = process
        self._broker = process.broker
        self._committed = committed
        self._positions: dict[tuple[str, int], int] = {}
        self._ended: set[tuple[str, int]] = set()

    def assign(self, partitions: Sequence[Any]) -> None:
        """Read these from their offsets."""
        self._positions = {(p.topic, p.partition): p.offset for p in partitions}

    def assignment(self) -> list[Any]:
        """What is read."""
        return [TopicPartition(*place) for place in self._positions]

    def position(self, partitions: Sequence[Any]) -> list[Any]:
        """After the last record that was handed out; librdkafka knows none before it."""
        return [TopicPartition(p.topic, p.partition, OFFSET_INVALID) for p in partitions]

    def consume(self, count: int, timeout: float) -> list[_Message]:
        """Some records, and where a partition ends."""
        return self._process.call(
            "read", lambda: self._consume(min(count, self._process.restore_rows))
        )

    def _consume(self, count: int) -> list[_Message]:
        found: list[_Message] = []
        for place, position in self._positions.items():
            log = self._broker.log(*place)
            entries, after = log.read(position, count, committed=self._committed)
            found += [_Message(place, entry, 0) for entry in entries]
            self._positions[place] = after
            if entries or after > position:
                self._ended.discard(place)
            if len(entries) < count and place not in self._ended:
                self._ended.add(place)
                found.append(_Message(place, None, after))
        if not found:
            places = {place: self._broker.log(*place) for place in self._positions}
            _poll(
                self._broker.clock,
                lambda: any(self._has_news(log, self._positions[p]) for p, log in places.items()),
            )
        return found

    def _has_news(self, log: Log, position: int) -> bool:
        return (log.stable_end if self._committed else log.end) > position

    def committed(self, partitions: Sequence[Any], timeout: float) -> list[Any]:
        """The group's offsets, once no transaction may change them any more."""
        group, asked = self._broker.group, [p.partition for p in partitions]

        def answer() -> list[Any]:
            Fiber.wait_while(lambda: group.is_pending(asked))
            return [
                SimpleNamespace(
                    topic=p.topic,
                    partition=p.partition,
                    offset=group.committed.get(p.partition, -1001),
                    metadata=group.notes.get(p.partition, ""),
                    error=None,
                )
                for p in partitions
            ]

        return self._process.call("committed", answer)

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float) -> list[Any]:
        """Start or end of each log as this reader sees it; else the first offset that is not older,
        -1 where all are.
        """
        return self._process.call(
            "bounds",
            lambda: [TopicPartition(p.topic, p.partition, self._offset_at(p)) for p in partitions],
        )

    def _offset_at(self, asked: Any) -> int:
        log = self._broker.log(asked.topic, asked.partition)
        if asked.offset == OFFSET_BEGINNING:
            return 0
        if asked.offset == OFFSET_END:
            return log.stable_end if self._committed else log.end
        return next((entry.offset for entry in log.entries if entry.at * 1000 >= asked.offset), -1)

    def close(self) -> None:
        """Nothing is held."""


# -- aiokafka --------------------------------------------------------------------------------------


class SimulatedThread(ConsumerThread):
    """Faust's consumer thread, fetching from the broker in memory."""

    def __init__(self, process: Caller) -> None:
        super().__init__()
        self._process = process
        self.fetch_records = 1
        # where a log ended by the last fetch: its stable part, all of it
        self.ends: dict[TP, tuple[int, int]] = {}

    def assign(self, generation: int, member_id: str, assigned: set[TP]) -> None:
        """A new assignment; nothing is fetched before a seek."""
        self.generation, self.member_id, self.assigned = generation, member_id, set(assigned)
        self.positions.clear()
        self.ends.clear()

    @property
    def _client(self) -> Any:
        """aiokafka's, as far as one asks for a partition alone."""
        cluster = SimpleNamespace(leader_for_partition=lambda tp: 1)
        return SimpleNamespace(cluster=cluster, send=self._send)

    async def _send(self, node: int, request: Any) -> Any:
        """The answer to a fetch of one partition, as the newest protocol has it; aborted records
        and markers are in it too.
        """
        ((topic, ((partition, offset, _),)),) = request._topics
        broker = self._process.broker

        def answer() -> Any:
            if broker.is_away("logs"):
                raise NodeNotReadyError("nobody leads it")
            log = broker.log(topic, partition)
            stable = log.stable_end
            held = any(offset <= entry.offset < stable for entry in log.entries)
            fetched = (partition, 0, log.end, stable, 0, [], -1, b"batches" if held else b"")
            return SimpleNamespace(topics=[(topic, [fetched])])

        return self._process.call("fetch", answer)

    async def getmany(self, tps: set[TP], timeout: float) -> dict[TP, list[Fetched]]:
        """One fetch: positions move with it, whoever moves them meanwhile."""
        found = self._process.call("fetch", lambda: self._fetch(sorted(tps)))
        if not found and timeout:
            logs = {tp: self._process.broker.log(tp.topic, tp.partition) for tp in tps}
            positions = dict(self.positions)
            _poll(
                self._process.broker.clock,
                lambda: (
                    self.positions != positions
                    or any(logs[tp].stable_end > positions.get(tp, 0) for tp in tps)
                ),
            )
        return found

    def _fetch(self, tps: list[TP]) -> dict[TP, list[Fetched]]:
        found: dict[TP, list[Fetched]] = {}
        if self._process.broker.is_away("logs"):
            return found  # aiokafka asks others, in silence
        for tp in tps:
            log = self._process.broker.log(tp.topic, tp.partition)
            self.ends[tp] = log.stable_end, log.end
            before = self.positions.get(tp, 0)
            entries, after = log.read(before, self.fetch_records)
            # a hole at the end moves nobody
            self.positions[tp] = max(before, log.last_before(after) + 1)
            if entries:
                found[tp] = [
                    Fetched(*tp, e.offset, int(e.at * 1000), e.key, e.value) for e in entries
                ]
        return found


# -- rocksdict -------------------------------------------------------------------------------------


class File:
    """A database as it lies on a disk: one write after another, so that a power cut can take the
    last ones.
    """

    def __init__(self) -> None:
        self.rows = MemoryRows()
        self.writes: list[Mapping[bytes, bytes | None]] = []

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Append a write."""
        self.rows.write(changes)
        self.writes.append(changes)

    def cut(self, writes: int) -> None:
        """Lose the last ones."""
        self.writes = self.writes[: max(0, len(self.writes) - writes)]
        self.rows = MemoryRows()
        for changes in self.writes:
            self.rows.write(changes)


class Database:
    """An open database; of no use to anyone once it is closed, as RocksDB's."""

    def __init__(self, file: File, call: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._file: File | None = file
        self._call = call

    @property
    def file(self) -> File:
        """What it is open on."""
        if self._file is None:
            raise RuntimeError("the database is closed")
        return self._file

    def get(self, key: bytes) -> bytes | None:
        """A row."""
        return self.file.rows.get(key)

    def scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows in order."""
        return self._call("scan", lambda: self.file.rows.scan(prefix, start))

    def close(self) -> None:
        """Nobody may use it any more."""
        self._file = None


Disk = dict[int, File]
"""A worker's data directory: a database for each partition."""


class Databases:
    """The databases of a worker on a disk in memory; see
    `worker.storage.databases.PartitionDatabases`.
    """

    memory_bytes = 0

    def __init__(self, process: Caller, disk: Disk) -> None:
        self._process = process
        self.disk = disk
        self._databases: dict[int, Database] = {}

    def open(self, partition: int) -> Database:
        """Made where it is missing."""
        if partition not in self._databases:
            self._databases[partition] = Database(
                self.disk.setdefault(partition, File()), self._process.call
            )
        return self._databases[partition]

    rows = open

    @contextmanager
    def look(self, partition: int, within: bytes) -> Iterator[MemoryRows]:
        """Nothing is written while someone looks, and nothing happens to who does."""
        if partition not in self._databases:
            raise NotOpen
        yield self._databases[partition].file.rows

    def write(self, partition: int, changes: Mapping[bytes, bytes | None]) -> None:
        """All of them."""
        database = self.open(partition)
        self._process.call("write", lambda: database.file.write(dict(changes)))

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """Some, or all."""
        for partition in list(self._databases) if partitions is None else partitions:
            if partition in self._databases:
                self._databases.pop(partition).close()

    def wipe(self, partition: int) -> None:
        """Remove it from the disk."""
        self._databases.pop(partition, None)
        self.disk.pop(partition, None)


class Store:
    """What Faust's store is to the table: it closes the databases of partitions that
    were given up.
    """

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def on_rebalance(self, assigned: set[TP], *_: Any) -> None:
        """Close what was given up."""
        self._databases.close(set(self._databases.disk) - {tp.partition for tp in assigned})

    async def on_recovery_completed(self, *_: Any) -> None:
        """Nothing."""


def stored_offset(file: File | None) -> int:
    """The changelog offset that a database holds, -1 where there is none."""
    stored = None if file is None else file.rows.get(OFFSET_KEY)
    return -1 if stored is None else int(stored)
