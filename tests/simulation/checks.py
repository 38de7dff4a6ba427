"""What must hold of a world in the end, found out by brute force from the logs alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from tests.harness.brute_view import brute_view
from tests.harness.compare import Change, Difference, compare_changes, compare_dead_letters
from tests.harness.history import History, history, record_model
from tests.harness.topics import Message
from tests.simulation.broker import Entry, Log, Transaction
from tests.simulation.clients import BOOKKEEPING, File
from tests.simulation.fibers import drive
from tests.simulation.load import ENTITIES
from tests.simulation.process import Process
from tests.simulation.surroundings import Ended
from tests.simulation.world import TOMBSTONE_SECONDS, Violation, World
from worker.events import Reason, Record
from worker.processing.config import processor_config
from worker.processing.entity_view import SummaryView
from worker.state import MemoryRows, StateError, verify_partition
from worker.state.keys import APPLIED
from worker.state.rows import decode_applied
from worker.stream.queries import NotHere

REASONS = frozenset(str(reason) for reason in Reason)


def check(world: World) -> None:
    """All invariants on a world that has caught up. Raises Violation."""
    wanted = history(input_of(world), world.settings)
    check_messages(world, wanted)
    _check_state(world)
    _check_certificates(world)


def check_messages(world: World, wanted: History) -> None:
    """What was published is what the input led to, each exactly once and in its transaction. Raises
    Violation.
    """
    published = messages_of(world, world.settings.output_topic)
    letters = messages_of(world, world.settings.dlq_topic)
    if world.setup.emit == "every":
        at_once, at_end = _to_be_published(world, wanted.changes)
        _raise_first(compare_changes(at_end + at_once, published))
        at_once, at_end = _to_be_published(world, wanted.facets)
        facets = messages_of(world, world.settings.facets_topic)
        _raise_first(compare_changes(at_end + at_once, facets))
        world.seen["facets published"] += len(facets)
    _raise_first(compare_dead_letters(wanted.dead_letters, letters))
    world.seen["changes published"] += len(published)
    world.seen["dead letters"] += len(letters)
    at_end = [
        change.ce_id
        for changes in (wanted.changes, wanted.facets)
        for change in _to_be_published(world, changes)[1]
    ]
    _check_transactions(world, _expected(world, wanted), set(at_end))


def _raise_first(differences: Iterable[Difference]) -> None:
    for difference in differences:
        raise Violation(
            difference.invariant, f"{difference.kind} {difference.where}: {difference.detail}"
        )


def _to_be_published(world: World, changes: list[Change]) -> tuple[list[Change], list[Change]]:
    """The changes that are published when they happen, and at the end of a replay."""
    if world.replay is None:
        return changes, []
    return world.replay.at_once(changes), world.replay.at_end(changes)


def input_of(world: World) -> list[Message]:
    """What was to be read: of a replay not what lies before its beginning, and until it is over
    nothing from its ends on.
    """
    found = messages_of(world, world.settings.input_topic)
    if world.replay is None:
        return found
    ranges = world.replay.ranges
    return [
        message
        for message in found
        if ranges[message.partition].first <= message.offset
        and (message.offset < ranges[message.partition].end or not world.is_bounded)
    ]


def messages_of(world: World, topic: str) -> list[Message]:
    """All that a committed reader sees."""
    return [
        Message(topic, partition, *_record(entry), entry.headers)
        for partition in world.partitions
        for entry in world.broker.log(topic, partition).committed()
    ]


def _record(entry: Entry) -> tuple[int, int, bytes | None, bytes | None]:
    return entry.offset, int(entry.at * 1000), entry.key, entry.value


# -- I4, I5: each transaction by itself ------------------------------------------------------------

Identity = tuple[str, bytes | None]
"""What says which message it is, and its value where it is not known otherwise what that
must be.
"""


def _check_transactions(
    world: World, expected: Callable[[int, int, int], list[Identity]], passed_over: Container[str]
) -> None:
    """A transaction's offsets say which records it is about: it must hold what these lead to, and
    nothing else.

    What is published at the end of a replay is passed over, by its `ce_id`.
    """
    found = {p: _by_transaction(world, p, passed_over) for p in world.partitions}
    done: dict[int, int] = defaultdict(int)
    if world.replay is not None:
        done.update({partition: span.first for partition, span in world.replay.ranges.items()})
    for transaction in world.broker.decided:
        for partition, end in sorted(transaction.offsets.items()):
            wanted = expected(partition, done[partition], end)
            done[partition] = max(done[partition], end)
            if found[partition][transaction] != wanted:
                raise Violation(
                    "I5",
                    f"partition {partition}: the transaction up to {end} holds "
                    f"{found[partition][transaction]}, not {wanted}",
                )


def _by_transaction(
    world: World, partition: int, passed_over: Container[str]
) -> dict[Transaction | None, list[Identity]]:
    """The messages of each transaction: summary changes, then facets, then dead letters."""
    found: dict[Transaction | None, list[Identity]] = defaultdict(list)
    for topic, header in (
        (world.settings.output_topic, "ce_id"),
        (world.settings.facets_topic, "ce_id"),
        (world.settings.dlq_topic, "dlq.source.offset"),
    ):
        for entry in world.broker.log(topic, partition).history:
            if not entry.is_marker:
                value = entry.value if world.setup.emit == "coalesced" else None
                identity = dict(entry.headers)[header].decode()
                if identity not in passed_over:
                    found[entry.transaction].append((identity, value))
    return found


def _expected(world: World, wanted: History) -> Callable[[int, int, int], list[Identity]]:
    """(partition, first offset, end) -> what the records between lead to."""
    if world.setup.emit == "coalesced":
        return _coalesced(world)

    at_once = [
        change
        for changes in (wanted.changes, wanted.facets)
        for change in _to_be_published(world, changes)[0]
    ]

    def every(partition: int, first: int, end: int) -> list[Identity]:
        changes = [
            c.ce_id for c in at_once if c.partition == partition and first <= c.sequence < end
        ]
        sources = [letter.source for letter in wanted.dead_letters]
        letters = [
            str(s.offset) for s in sources if s.partition == partition and first <= s.offset < end
        ]
        return [(identity, None) for identity in changes + letters]

    return every


def _coalesced(world: World) -> Callable[[int, int, int], list[Identity]]:
    """Which changes there are depends on the micro-batches: the model gets the same ones."""
    model = record_model(
        processor_config(world.settings, world.setup.partitions, None), lambda _: []
    )

    def coalesced(partition: int, first: int, end: int) -> list[Identity]:
        log = world.broker.log(world.settings.input_topic, partition)
        changes: list[Identity] = []
        facets: list[Identity] = []
        letters: list[Identity] = []
        records = [
            Record(world.settings.input_topic, partition, *_record(entry))
            for entry in log.committed()
            if first <= entry.offset < end
        ]
        messages, outcomes = model.run(records)
        for key, value, identity in messages:
            if identity not in REASONS:
                of_facets = _is_of_facets(world, partition, key, value, identity, records)
                (facets if of_facets else changes).append((identity, value))
        for record, outcome in zip(records, outcomes, strict=True):
            if outcome.startswith("dead_letter:"):
                letters.append((str(record.offset), record.value))
        return changes + facets + letters

    return coalesced


def _is_of_facets(
    world: World,
    partition: int,
    key: bytes,
    value: bytes | None,
    identity: str,
    records: Iterable[Record],
) -> bool:
    if value is not None:
        return b'"type":"facets.changed"' in value[:30]
    name, epoch = key.decode(), world.settings.epoch
    tombstones = {
        Change(partition, name, epoch, record.offset, None, None).ce_id for record in records
    }
    return identity not in tombstones


# -- I8 --------------------------------------------------------------------------------------------


def state_of(entries: Iterable[Entry]) -> dict[bytes, bytes]:
    """The rows that changelog records lead to."""
    rows: dict[bytes, bytes] = {}
    for entry in entries:
        assert entry.key is not None
        if entry.value is None:
            rows.pop(entry.key, None)
        else:
            rows[entry.key] = entry.value
    return rows


def _stored(file: File | None) -> dict[bytes, bytes]:
    rows = () if file is None else file.rows.scan(b"")
    return {key: value for key, value in rows if not key.startswith(BOOKKEEPING)}


def check_restored(world: World, process: Process) -> None:
    """Who takes over holds what was ever committed. Who does not know that the partition is
    another's by now may lack its last transactions, those since the takeover began. Raises
    Violation.
    """
    assert process.held is not None
    for partition in process.held.actives:
        log = world.broker.log(world.changelog, partition)
        found = _stored(process.disk.get(partition))
        if not world.is_owner(process) and found in _states_since(log, process.ends[partition]):
            continue
        _compare_rows(
            f"partition {partition} as taken over by {process.name}",
            state_of(log.committed()),
            found,
        )


def _states_since(log: Log, end: int) -> Iterator[dict[bytes, bytes]]:
    """The states that were committed when a log ended there, and after each transaction since."""
    entries = log.committed()
    for number, (entry, following) in enumerate(pairwise(entries), 1):
        if following.offset >= end and entry.transaction is not following.transaction:
            yield state_of(entries[:number])
    if entries and entries[0].offset >= end:
        yield {}


# -- queries


def check_told(world: World, process: Process) -> None:
    """A query at any moment returns a committed summary, with all events below its offset. Raises
    Violation.

    Also of a partition that is only followed, restored or not held any more: a query has no
    answer, or what was committed.
    """
    for partition in world.partitions:
        for number, entity_id in enumerate(ENTITIES):
            if number % world.setup.partitions != partition:
                continue
            try:
                view = drive(process.worker.summaries.read(partition, entity_id, SummaryView))
            except NotHere:
                continue
            except Ended as end:
                raise Violation("view", f"a look ended {process.name}: {end.cause!r}") from end
            if view is not None:
                world.seen["summaries read"] += 1
                _check_view(world, partition, view)


def _check_view(world: World, partition: int, view: SummaryView) -> None:
    rows = MemoryRows()
    # Also what lies behind the open transaction of a worker that was replaced: readers of the log
    # wait for its end, and what its owner has committed is committed.
    for entry in world.broker.log(world.changelog, partition).history:
        if not entry.is_committed:
            continue
        assert entry.key is not None
        rows.write({entry.key: entry.value})
        if (
            entry.key == APPLIED
            and decode_applied(APPLIED, entry.value or b"").next_offset == view.next_offset
        ):
            break
    setup, dimension = world.setup, world.settings.dimension
    try:
        wanted = brute_view(
            rows,
            view.entity_id,
            dimension=dimension,
            k=setup.k,
            distinct=setup.distinct,
            by_text=setup.weigh == "texts",
        )
    except StateError as error:
        raise Violation(
            "view", f"what was committed up to {view.next_offset} is no state: {error}"
        ) from error
    found = replace(view, partition=None, next_offset=None, reservoir=None)
    if found != wanted:
        raise Violation("view", f"as of offset {view.next_offset}: {found}, committed is {wanted}")


def _check_state(world: World) -> None:
    """Owners, standbys and the compacted changelog have the same rows, which a brute-force look
    finds sound.
    """
    for partition in world.partitions:
        log = world.broker.log(world.changelog, partition)
        wanted = state_of(log.committed())
        for process in world.workers:
            assert process is not None
            assert process.held is not None
            if partition in process.held.actives | process.held.standbys:
                _compare_rows(
                    f"partition {partition} at {process.name}",
                    wanted,
                    _stored(process.disk.get(partition)),
                )
            if partition in process.held.actives:
                _verify(world, process, partition)
        _check_compacted(world, log, partition, wanted)


def _verify(world: World, process: Process, partition: int) -> None:
    if partition not in process.disk:
        return
    rows = process.disk[partition].rows
    for found in verify_partition(
        rows,
        dimension=world.settings.dimension,
        k=world.setup.k,
        distinct=world.setup.distinct,
        by_text=world.setup.weigh == "texts",
        min_changes=world.setup.min_changes,
    ):
        if found.problems:
            raise Violation("I6", f"partition {partition}, {found.entity_id}: {found.problems}")


def _check_compacted(world: World, log: Log, partition: int, wanted: dict[bytes, bytes]) -> None:
    log.compact(0, 0 if world.plan.seed % 2 else TOMBSTONE_SECONDS)
    entries, _ = log.read(0, len(log.entries))
    _compare_rows(
        f"partition {partition} rebuilt from the compacted changelog", wanted, state_of(entries)
    )


def _compare_rows(where: str, wanted: dict[bytes, bytes], found: dict[bytes, bytes]) -> None:
    if wanted != found:
        missing = sorted(wanted.keys() - found.keys())
        more = sorted(found.keys() - wanted.keys())
        other = sorted(key for key in wanted.keys() & found.keys() if wanted[key] != found[key])
        raise Violation(
            "I8", f"{where}: missing {missing[:3]}, too many {more[:3]}, different {other[:3]}"
        )


# -- I6 --------------------------------------------------------------------------------------------


def _check_certificates(world: World) -> None:
    """Every step was proved by a certificate or decided by a refill; that it was right is in the
    messages.
    """
    for counters in world.core:
        world.seen["steps proved by the reservoir"] += counters.proved_reservoir
        world.seen["refills"] += counters.refilled
        if counters.steps != counters.proved_reservoir + counters.refilled:
            raise Violation("I6", f"some steps were not decided, or twice: {counters}")
