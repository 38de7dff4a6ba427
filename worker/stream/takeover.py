"""Takeover: the worker makes the partitions that the group assigned ready for processing.

0. Decide the transaction that this worker left open, if a rebalance interrupted a commit in doubt.
1. Fetch the group's committed offsets, which waits until the predecessor's transaction is decided;
   then the ids of the topics.
2. Fetch the changelog's end as an uncommitted reader sees it: everything below it belongs to a
   transaction that is decided soon.
3. Restore with a committed reader until its position passes that end, and on to the log's new end
   until nothing more arrives. So a restore never ends amid the rows of a transaction, not even one
   of the partition's next owner.
4. Check that the restored state fits input, output and settings.
5. Seek the input to the offsets of step 1 (`GuardedConsumer.perform_seek`). Faust does this after
   `Takeover.run`.

A rebalance may come at any moment: `let_go` waits until the work of the former assignment has
ended, and the assignment's epoch keeps late work from writing. If brokers are away or move
partition leaders, all steps begin again over new connections, until they succeed or the watchdog
ends the process. A commit in doubt ends in the same steps, without the group (`again`).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from worker.errors import SetupError
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.kafka.changelog import ChangelogReader, Logs, StaleCopy
from worker.kafka.errors import is_retriable
from worker.kafka.offsets import NOTHING, Start
from worker.processing.processor import Processor
from worker.state import Changes
from worker.state.errors import NEW_EPOCH
from worker.stream.assignment import Assignment, Role
from worker.stream.gate import Gate
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.run_bounds import NO_LEDGER, Ledger
from worker.stream.surroundings import ProcessorThread, Surroundings

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0  # pause before a takeover begins again after a retriable error


@dataclass(eq=False)
class Takeover:
    """Takes over the partitions that the group assigns, and releases them."""

    assignment: Assignment
    logs: Logs
    gate: Gate
    processor: ProcessorThread
    group: GroupFingerprint
    decide_open: Callable[[], None]
    """Step 0. Raises Unanswered."""
    seek: Callable[[], Awaitable[None]]  # step 5, after a doubt
    on_restore: Callable[[int, int], None]  # called with the rows read and the offsets remaining
    surroundings: Surroundings
    ledger: Ledger = NO_LEDGER

    def __post_init__(self) -> None:
        self._running: Any = None  # the takeover under way
        self._reader: ChangelogReader | None = None
        self._follower: Any = None
        self._leaving = False

    # -- the end of an assignment

    async def let_go(self) -> None:
        """End the assignment: after this nothing of it reads, writes or is cached."""
        self._leaving = True  # a reader opened from here on stops before its first row
        if self._reader is not None:
            self._reader.stop()
        if self._running is not None:
            await self.surroundings.threads.ended(self._running)
            self._running = None
        if self._follower is not None:
            await self.surroundings.threads.beside(self._follower.join)
        self._reader = self._follower = None
        self._leaving = False
        processed = self.assignment.end()
        await self.processor.run(lambda processor: processor.forget(processed))

    # -- the beginning of the next

    async def run(self, actives: set[int], standbys: set[int]) -> None:
        """Take over `actives` and follow the changelog of `standbys`. Errors end the process."""
        threads = self.surroundings.threads
        self._running = threads.task("takeover", lambda: self._take_over(actives, standbys))
        await threads.ended(self._running)

    async def again(self, found: Callable[[Mapping[int, int]], None]) -> None:
        """Take over the held partitions as if the group had just assigned them.

        `found` is called with the next source offset of each partition, unless a rebalance goes
        first.
        """
        roles = dict(self.assignment.roles)
        actives, standbys = (
            {partition for partition, held in roles.items() if held is role}
            for role in (Role.ACTIVE, Role.STANDBY)
        )
        await self.let_go()
        await self.run(actives, standbys)
        if self.assignment.is_lasting and self.assignment.positions.keys() == actives:
            found(self.assignment.positions)
            await self.seek()

    async def fetch_starts(self) -> dict[int, Start]:
        """Step 1: where the assigned partitions of the input are read from.

        Raises SetupError if a committed offset lies outside the log.
        """
        partitions = sorted(self.assignment.inputs)
        starts: dict[int, Start] = {}
        if partitions:
            starts = await self.surroundings.threads.beside(
                lambda: self.logs.input.starts(partitions)
            )
        self.assignment.starts = starts
        return starts

    async def _take_over(self, actives: set[int], standbys: set[int]) -> None:
        level = logging.INFO  # once: a long outage is reported by the contact
        try:
            while (cause := await self._retriable_error(actives, standbys - actives)) is not None:
                log.log(level, "retrying the takeover after an error of the brokers: %s", cause)
                level = logging.DEBUG
                await self.surroundings.pause(PAUSE_SECONDS)
                if not self._may_continue():
                    return
        except BaseException as cause:
            self.surroundings.die(cause)

    async def _retriable_error(self, actives: set[int], standbys: set[int]) -> Exception | None:
        """Do all steps once; a retriable error of the brokers is returned."""
        try:
            await self._attempt(actives, standbys)
        except Exception as cause:
            if not is_retriable(cause):
                raise
            return cause
        return None

    async def _attempt(self, actives: set[int], standbys: set[int]) -> None:
        epoch, beside = self.assignment.epoch, self.surroundings.threads.beside
        await beside(self.decide_open)
        starts = await self.fetch_starts()
        await beside(self.logs.ids.read)
        if starts.keys() != actives:
            return  # the group has assigned others since, and another takeover follows
        self.assignment.begin(actives, standbys)
        complete = await beside(lambda: self._restore(epoch, sorted(actives)))
        if not complete:
            return  # overtaken by a rebalance
        await self.begin_processing(starts)
        if standbys and epoch == self.assignment.epoch:
            self._follow(epoch, sorted(standbys))

    def _may_continue(self) -> bool:
        """True if this takeover's assignment has not ended."""
        return self.assignment.is_lasting and not self._leaving

    # -- the changelog

    def _restore(self, epoch: int, partitions: list[int]) -> bool:
        """Steps 2 and 3; False if a rebalance interrupted them."""
        started = self.surroundings.clock.monotonic()
        if not partitions:
            return True
        since = self.surroundings.clock.time()
        bounds = self.logs.changelog.bounds(partitions)
        starts = {p: self.gate.restore_start(p, bounds[p]) for p in partitions}
        reader = self._open_reader(Role.ACTIVE, epoch, starts, since)

        def on_progress(rows: int, remaining: int) -> None:
            self.assignment.progress.made()
            self.on_restore(rows, remaining)
            if not self.assignment.is_lasting:
                reader.stop()  # after a doubt the group waits for this

        try:
            while (
                reader.restore({p: bounds[p].end for p in partitions}, on_progress)
                and not reader.stopped
            ):
                bounds = self.logs.changelog.bounds(partitions)
        except StaleCopy as stale:
            self.gate.discard(Role.ACTIVE, epoch, stale.partition)
            raise
        if not reader.stopped:
            for partition in partitions:
                self.gate.mark_whole(Role.ACTIVE, epoch, partition)
        seconds = self.surroundings.clock.monotonic() - started
        self.assignment.journal.restored(reader.rows_read, len(partitions), seconds)
        return epoch == self.assignment.epoch and self._reader is reader and not reader.stopped

    def _follow(self, epoch: int, partitions: list[int]) -> None:
        """Start a thread for standbys, so that neither event loop nor active partitions wait."""

        def follow() -> None:
            try:
                while (reader := self._standby_reader(epoch, partitions)) is not None:
                    try:
                        return reader.follow()
                    except StaleCopy as stale:
                        log.warning("%s", stale)
                        self.gate.discard(Role.STANDBY, epoch, stale.partition)
            except BaseException as cause:
                self.surroundings.die(cause)

        self._follower = self.surroundings.threads.start("standby", follow)

    def _standby_reader(self, epoch: int, partitions: list[int]) -> ChangelogReader | None:
        """A reader that begins after the local rows; None if the assignment ended first."""
        while self._may_continue():
            since = self.surroundings.clock.time()
            try:
                bounds = self.logs.changelog.bounds(partitions)
            except Exception as cause:
                if not is_retriable(cause):
                    raise
                log.debug("fetching the bounds of standbys again: %s", cause)
                self.surroundings.clock.sleep(PAUSE_SECONDS)
                continue
            if not self._may_continue():
                break
            starts = {p: self.gate.restore_start(p, bounds[p]) for p in partitions}
            return self._open_reader(Role.STANDBY, epoch, starts, since)
        return None

    def _open_reader(
        self, role: Role, epoch: int, starts: Mapping[int, int], since: float
    ) -> ChangelogReader:
        def apply(partition: int, first: int, changes: Changes, last: int) -> None:
            self.gate.apply(role, epoch, partition, changes, last, after=first)

        def at_end(partition: int) -> None:
            self.gate.mark_whole(role, epoch, partition)

        self._reader = reader = self.logs.changelog.reader(starts, apply, at_end, since)
        if self._leaving:
            reader.stop()
        return reader

    # -- state and input

    async def begin_processing(self, starts: Mapping[int, Start]) -> None:
        """Step 4; from here on micro-batches count from `starts`.

        Raises SetupError if state, input, output and settings do not fit.
        """

        def check(processor: Processor) -> None:
            topic_id = self.logs.ids.known(self.logs.input.topic)
            processor.forget(starts)  # caches are from before the restore
            for partition, start in starts.items():
                _check_topic(processor, self.logs, partition)
                _check_state(processor, self.logs, partition, start)
                processor.reads_from(partition, topic_id)
            _check_outputs(processor, self.logs, starts)
            if any(processor.check_partition(partition) is not None for partition in starts):
                self.group.agreed()
            self.group.check()
            for partition in starts:
                processor.begin(partition)

        await self.processor.run(check)
        self.ledger.begin(starts)
        self.assignment.restored(starts)
        if self.assignment.doubt is None:
            self.assignment.progress.made()  # after a doubt only a commit is progress


def _check_topic(processor: Processor, logs: Logs, partition: int) -> None:
    """Offsets of one topic mean nothing in another topic of the same name."""
    stored, topic_id = processor.topic_id(partition), logs.ids.known(logs.input.topic)
    if stored and topic_id and stored != topic_id:
        raise SetupError(
            f"the state of {logs.input.topic}-{partition} was made from the topic with the id "
            f"{stored}, which now has the id {topic_id}: it was deleted and created again, and "
            "its records would pass for applied ones; start over with `coversumm-worker reset`"
        )


def _check_state(processor: Processor, logs: Logs, partition: int, start: Start) -> None:
    """Committed offsets may lie below the applied ones (rewound: those records are ignored).

    Beyond them rows or records would be missing, except those that an operator skipped.
    """
    applied = processor.check_partition(partition)
    if applied is None and not start.committed:
        return
    reached = NOTHING if applied is None else applied
    if reached < start.applied:
        raise SetupError(
            f"{logs.input.topic}-{partition} would be read from offset {start.offset}, but the "
            f"state ends at {applied or 0}: records or rows of the changelog "
            f"{logs.changelog.topic} are gone, or offsets were moved forward; put the offsets "
            "back, or start over with `coversumm-worker reset`"
        )
    # The topic's end was read before the restore. State of the same topic beyond that end was made
    # by another worker that took over while this one was paused: this assignment is past, and the
    # broker refuses its commits.
    topic_id = logs.ids.known(logs.input.topic)
    if reached > start.end and not (topic_id and processor.topic_id(partition) == topic_id):
        raise SetupError(
            f"the state of {logs.input.topic}-{partition} ends at offset {applied}, the topic at "
            f"{start.end}: it was deleted and created again, and its records would pass for "
            "applied ones; start over with `coversumm-worker reset`"
        )


def _check_outputs(processor: Processor, logs: Logs, partitions: Collection[int]) -> None:
    """Refuse an output topic that was created again: it lacks the summaries that do not change.
    Likewise one of facets.

    Another name is the operator's decision, with one warning.
    """
    for topic, output in ((SUMMARIES, logs.output), (FACETS, logs.facets)):
        if output is not None:
            _check_output(processor, logs, partitions, output, topic)


def _check_output(
    processor: Processor, logs: Logs, partitions: Collection[int], output: str, topic: OutputTopic
) -> None:
    what = topic.name
    topic_id = logs.ids.known(output)
    before: set[str] = set()
    for partition in partitions:
        stored = processor.output(partition, topic)
        if stored is not None and stored.topic != output:
            before.add(stored.topic)
        elif stored is not None and stored.topic_id and topic_id and stored.topic_id != topic_id:
            raise SetupError(
                f"the {what} of partition {partition} were published to the output topic "
                f"{output} with the id {stored.topic_id}, which now has the id {topic_id}: "
                f"it was deleted and created again, and would lack {what} that do not change "
                "again; publish all of them again with `coversumm-worker reset`, or set another "
                f"{topic.setting} to publish only changes from here on"
            )
        processor.publishes_to(partition, topic_id, topic)
    if before:
        log.warning(
            "%s were published to %s before; from here on only those that change are "
            "published to %s; for all of them start over with `coversumm-worker reset`, or %s",
            what,
            ", ".join(sorted(before)),
            output,
            NEW_EPOCH,
        )
