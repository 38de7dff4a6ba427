"""Kafka in memory, as far as exactly-once delivery leans on it: logs, transactions, one consumer
group, compaction.

Nothing here fails by itself and nothing waits: what must wait in Kafka is a question here
(`Group.is_pending`), and the clients (`tests.simulation.clients`) do the waiting and the failing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tests.simulation.fibers import Fiber

SESSION_SECONDS = 6.0
TRANSACTION_SECONDS = 15.0
DAY_SECONDS = 24 * 3600.0
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
Headers = tuple[tuple[str, bytes], ...]


class Refused(KafkaException):  # type: ignore[misc]
    """What the simulated broker or a client library answers in place of success."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(KafkaError(code, reason))


class Clock:
    """Simulated time in seconds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float, /) -> None:
        """Whoever must wait is parked."""
        until = self.now + seconds
        Fiber.wait_while(lambda: self.now < until)


@dataclass(slots=True, eq=False)
class Transaction:
    """Of a producer; `first` has its first offset in each log it wrote to, `offsets` what it would
    commit, with `notes`.
    """

    opened_at: float
    state: str = OPEN
    first: dict[Log, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Entry:
    """A record of a log; a marker ends a transaction, takes an offset and is shown to nobody."""

    offset: int
    at: float
    key: bytes | None
    value: bytes | None
    headers: Headers
    transaction: Transaction | None
    is_marker: bool = False

    @property
    def is_committed(self) -> bool:
        """Whether a committed reader sees it, once the log is stable that far."""
        return not self.is_marker and (
            self.transaction is None or self.transaction.state == COMMITTED
        )


_offset = attrgetter("offset")


class Log:
    """A partition of a topic. `history` keeps what compaction removes, for the checks."""

    def __init__(self, clock: Clock) -> None:
        self.entries: list[Entry] = []
        self.history: list[Entry] = []
        self.end = 0
        self.open: dict[Transaction, int] = {}
        self._clock = clock

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        transaction: Transaction | None = None,
        *,
        is_marker: bool = False,
    ) -> int:
        """Write a record; its offset."""
        offset = self.end
        if transaction is not None and not is_marker:
            first = transaction.first.setdefault(self, offset)
            self.open.setdefault(transaction, first)
        entry = Entry(offset, self._clock.now, key, value, headers, transaction, is_marker)
        self.entries.append(entry)
        self.history.append(entry)
        self.end = offset + 1
        return offset

    @property
    def stable_end(self) -> int:
        """Where a committed reader stops: the first record of a transaction that is not decided."""
        return min(self.open.values(), default=self.end)

    def read(self, position: int, limit: int, *, committed: bool = True) -> tuple[list[Entry], int]:
        """Up to `limit` records from a position, and the position after them."""
        end = self.stable_end if committed else self.end
        found: list[Entry] = []
        for entry in self.entries[bisect_left(self.entries, position, key=_offset) :]:
            if entry.offset >= end:
                break
            if entry.is_marker or (committed and not entry.is_committed):
                continue
            if len(found) == limit:
                return found, found[-1].offset + 1
            found.append(entry)
        return found, max(position, end)

    def last_before(self, offset: int) -> int:
        """Where the last record or marker below an offset lies, -1 where there is none."""
        at = bisect_left(self.entries, offset, key=_offset)
        return self.entries[at - 1].offset if at else -1

    def committed(self) -> list[Entry]:
        """All that was ever committed, below the stable end."""
        end = self.stable_end
        return [entry for entry in self.history if entry.offset < end and entry.is_committed]

    def compact(self, keep_tail: int, tombstone_seconds: float) -> None:
        """Keep each key's last record, but the newest `keep_tail` offsets as they are; tombstones
        live so long.
        """
        dirty = max(0, min(self.stable_end, self.end - keep_tail))
        last = {
            entry.key: entry.offset
            for entry in self.entries
            if entry.offset < dirty and entry.is_committed
        }
        expired = self._clock.now - tombstone_seconds
        self.entries = [
            entry
            for entry in self.entries
            if entry.offset >= dirty
            or (
                entry.is_committed
                and last[entry.key] == entry.offset
                and (entry.value is not None or entry.at >= expired)
            )
        ]


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    transaction: Transaction | None = None


class Group:
    """The worker's consumer group: static members, one generation after another, and committed
    offsets.

    Attributes:
        assigned: by instance id, what the present generation gave to it.
        replaced: former members whose instance id another one has taken.
        committed: offsets, by partition; `notes` are what was written beside them.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.members: dict[str, Any] = {}
        self.assigned: dict[str, Any] = {}
        self.replaced: set[str] = set()
        self.joined: set[str] | None = None
        """While the group rebalances: who has joined the next generation."""
        self.committed: dict[int, int] = {}
        self.notes: dict[int, str] = {}
        self._pending: list[Transaction] = []

    def check(self, generation: int, member_id: str) -> None:
        """What a broker checks before it takes offsets: nothing at all for a generation below 0."""
        if generation < 0:
            return
        if member_id in self.replaced:
            raise Refused(KafkaError.FENCED_INSTANCE_ID, "another member has this instance id")
        if member_id not in self.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID, "unknown member")
        if generation != self.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION, "illegal generation")

    def hold(
        self, transaction: Transaction, offsets: Mapping[int, int], notes: Mapping[int, str] = {}
    ) -> None:
        """Offsets of a transaction: pending until it is decided; one without a note has an empty
        one.
        """
        transaction.offsets.update(offsets)
        transaction.notes.update({partition: notes.get(partition, "") for partition in offsets})
        if transaction not in self._pending:
            self._pending.append(transaction)

    def decide(self, transaction: Transaction) -> None:
        """The end of a transaction: its offsets count, or never were."""
        if transaction in self._pending:
            self._pending.remove(transaction)
            if transaction.state == COMMITTED:
                self.committed.update(transaction.offsets)
                self.notes.update(transaction.notes)

    def is_pending(self, partitions: Iterable[int]) -> bool:
        """Whether offsets of these partitions are in an open transaction."""
        asked = set(partitions)
        return any(asked & transaction.offsets.keys() for transaction in self._pending)

    # -- membership

    def join(self, member_id: str, host: Any) -> Any:
        """A new member: everyone must join again, unless it takes the place of one with its
        instance id, and its assignment.

        While the group rebalances it has no place yet to be taken.
        """
        former = [member for member, its_host in self.members.items() if its_host.name == host.name]
        for member in former:
            del self.members[member]
            self.replaced.add(member)
        self.members[member_id] = host
        if former and self.joined is None and host.name in self.assigned:
            return self.assigned[host.name]
        self.rebalance()
        assert self.joined is not None
        self.joined.add(member_id)
        return None

    def leave(self, member_id: str) -> None:
        """A member is gone, by its own will or not."""
        if self.members.pop(member_id, None) is not None:
            self.rebalance()

    def rebalance(self) -> None:
        """Everyone must join again; those who have already wait for the others."""
        if self.joined is None:
            self.joined = set()
        self.joined &= self.members.keys()

    @property
    def is_complete(self) -> bool:
        """Whether all have joined and the next generation may begin."""
        return self.joined is not None and self.joined == self.members.keys() and bool(self.members)


class Broker:
    """Topics, transactional producers, the group."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.group = Group()
        self.away: dict[str, float] = {}
        """By what moves (`transactions`, `group`, `logs`, `controller`), until when nobody leads
        it.
        """
        self.decided: list[Transaction] = []
        """Committed transactions with offsets, in the order of their commits."""
        self._logs: dict[tuple[str, int], Log] = {}
        self._producers: dict[str, _Producer] = {}

    def log(self, topic: str, partition: int) -> Log:
        """A partition."""
        found = self._logs.get((topic, partition))
        if found is None:
            found = self._logs[topic, partition] = Log(self.clock)
        return found

    def is_away(self, *parts: str) -> bool:
        """Whether nobody leads one of these at this moment."""
        return any(self.clock.now < self.away.get(part, 0.0) for part in parts)

    # -- transactions

    def init_producer(self, transactional_id: str) -> int:
        """Take over a transactional id: its open transaction is aborted, its last holder fenced."""
        producer = self._producers.setdefault(transactional_id, _Producer())
        self._fence(producer)
        return producer.epoch

    def begin(self, transactional_id: str, epoch: int) -> None:
        """Open a transaction."""
        producer = self._producer(transactional_id, epoch)
        assert producer.transaction is None
        producer.transaction = Transaction(self.clock.now)

    def produce(
        self,
        transactional_id: str,
        epoch: int,
        place: tuple[str, int],
        key: Any,
        value: Any,
        headers: Headers,
    ) -> int:
        """Write a record of the open transaction; its offset."""
        transaction = self._producer(transactional_id, epoch).transaction
        assert transaction is not None
        return self.log(*place).append(key, value, headers, transaction)

    def add_offsets(
        self,
        transactional_id: str,
        epoch: int,
        offsets: Mapping[int, int],
        membership: tuple[int, str],
        notes: Mapping[int, str] = {},
    ) -> None:
        """Source offsets for the open transaction; refused under a stale membership."""
        transaction = self._producer(transactional_id, epoch).transaction
        assert transaction is not None
        self.group.check(*membership)
        self.group.hold(transaction, offsets, notes)

    def end(self, transactional_id: str, epoch: int, state: str) -> None:
        """Commit or abort."""
        producer = self._producer(transactional_id, epoch)
        assert producer.transaction is not None
        self.decide(producer.transaction, state)
        producer.transaction = None

    def decide(self, transaction: Transaction, state: str) -> None:
        """End a transaction: a marker in every log it wrote to."""
        transaction.state = state
        for log in transaction.first:
            del log.open[transaction]
            log.append(None, None, (), transaction, is_marker=True)
        self.group.decide(transaction)
        if state == COMMITTED and transaction.offsets:
            self.decided.append(transaction)

    def expire(self) -> int:
        """Abort what was left open for too long, and fence who left it; how many."""
        late = [
            producer
            for producer in self._producers.values()
            if producer.transaction
            and self.clock.now - producer.transaction.opened_at > TRANSACTION_SECONDS
        ]
        for producer in late:
            self._fence(producer)
        return len(late)

    def _fence(self, producer: _Producer) -> None:
        producer.epoch += 1
        if producer.transaction is not None:
            self.decide(producer.transaction, ABORTED)
            producer.transaction = None

    def _producer(self, transactional_id: str, epoch: int) -> _Producer:
        producer = self._producers[transactional_id]
        if producer.epoch != epoch:
            raise Refused(KafkaError._FENCED, "a newer producer has this transactional id")
        return producer
