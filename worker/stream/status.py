"""The status of a running worker, for web, metrics and watchdog: readiness, lag, owners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

from worker import build
from worker.errors import many
from worker.events import Record
from worker.kafka.contact import Silence
from worker.kafka.reader import TopicReader
from worker.kafka.topics import partition_of
from worker.processing.ask import Answer, Question, Vector
from worker.processing.entity_view import Extent, Reads, V
from worker.settings.kinds import web_origin
from worker.state.listing import EntitySearch, Page
from worker.stream.assignment import Role
from worker.stream.journal import OnceAMinute
from worker.stream.watchdog import BUSY
from worker.stream.worker import StreamWorker

if TYPE_CHECKING:
    from worker.stream.faust.application import CoverSummApp

log = logging.getLogger(__name__)

BEHIND_SECONDS = 2.0  # age of the first record that waits, from which a partition is behind
LOOK_SECONDS = 5.0  # seconds between two looks at the records that wait


class WorkerStatus:
    """The status of a worker on a Faust app; each method is safe to call at any time."""

    def __init__(self, app: CoverSummApp, worker: StreamWorker) -> None:
        self._app = app
        self._worker = worker
        self._assignment = worker.assignment
        self._partitions = worker.partitions
        self._contact = worker.contact
        self._outage_seconds = min(
            worker.contact.timeout_seconds, worker.settings.stall_timeout_ms / 2000
        )
        self._ignored = OnceAMinute()
        self._empty_at: dict[int, float] = {}  # `Clock.monotonic()` when no record waited last

    def ready(self) -> tuple[bool, str]:
        """Readiness: the worker processes its partitions; and the reason in words.

        A worker without contact to a broker is not ready, though it may have no work.
        """
        app = self._app
        if app.is_leaving:
            return False, "stopping"
        if silence := self._silence():
            refusal = self.refusal()
            return False, f"{silence}: {refusal}" if refusal else str(silence)
        if not app.started or self._assignment.membership is None:
            return False, "starting: not yet a member of the consumer group"
        if self._assignment.doubt is not None:
            return False, "finding out whether a commit happened"
        if app.rebalancing:
            return False, "rebalancing"
        if app.in_recovery or not self._assignment.is_flowing:
            return False, "restoring the state from the changelog"
        if waiting := self._schemas_waiting():
            return False, waiting
        held = self._assignment.positions
        return (
            True,
            f"processing {len(held)} of {many(self._partitions, 'partitions')}"
            if held
            else "no partition to process",
        )

    def partitions(self) -> tuple[int, int]:
        """The number of partitions processed here now, and of the input topic."""
        held = self._assignment.positions if self._assignment.is_flowing else ()
        return len(held), self._partitions

    def lag(self) -> dict[int, int | None]:
        """Uncommitted records by partition up to the last stable offset; None before a fetch.

        With nothing in flight the fetch position counts, which passes transaction markers.
        """
        lags: dict[int, int | None] = {}
        for partition, (_, passed) in self.passed().items():
            end = self._app.consumer.stable_end(partition)
            lags[partition] = None if end is None else max(0, end - passed)
        return lags

    def oldest_unprocessed_seconds(self) -> dict[int, float]:
        """Seconds by partition that the first uncommitted record waits; 0 without such a record.

        By its timestamp, which a producer may set to any time: but no longer than since the
        partition was last seen without such a record. A partition is missing while it is unknown.
        """
        clock, lags, found = self._worker.surroundings.clock, self.lag(), dict[int, float]()
        for partition, position in self._positions().items():
            times, now = self._app.consumer.times[partition], clock.monotonic()
            while len(times) > 1 and times[1][0] <= position:
                times.popleft()
            if lags.get(partition) == 0:
                times.clear()
                self._empty_at[partition], found[partition] = now, 0.0
            elif times and times[0][1] > 0:
                age = clock.time() - times[0][1] / 1000
                found[partition] = max(0.0, min(age, now - self._empty_at.get(partition, -inf)))
        return found

    def _positions(self) -> dict[int, int]:
        """The next source offsets to commit, also those that a restore will begin with."""
        starts = self._assignment.starts or {}
        return {p: start.offset for p, start in starts.items()} | self._assignment.positions

    async def watch_oldest(self) -> None:
        """Read from time to time the first records of which nothing is fetched yet."""
        while not self._worker.bounds.ends:
            known, positions = self.oldest_unprocessed_seconds(), self._positions()
            unknown = {p: start for p, start in positions.items() if p not in known}
            try:
                for fetched in await asyncio.to_thread(self._first, unknown) if unknown else ():
                    if not (times := self._app.consumer.times[fetched.partition]):
                        times.append((fetched.offset, fetched.timestamp_ms))
            except Exception as cause:  # the next look may find them
                log.debug("could not read the first records: %r", cause)
            await asyncio.sleep(LOOK_SECONDS)

    def _first(self, positions: dict[int, int]) -> list[Record]:
        settings, clients = self._worker.settings, self._worker.surroundings.clients
        with TopicReader(
            clients, settings.input_topic, settings.app_id, lambda _: positions
        ) as reader:
            each = (islice(reader.read(*position), 1) for position in positions.items())
            return [stored.record for first in each for stored in first]

    def passed(self) -> dict[int, tuple[int, int]]:
        """The applied offset by partition, and a later one: no record is between them."""
        consumer = self._app.consumer
        found: dict[int, tuple[int, int]] = {}
        for partition, position in list(self._assignment.positions.items()):
            passed = position
            if consumer.cursors.get(partition) == position:
                passed = max(position, consumer.fetch_position(partition) or 0)
            found[partition] = position, passed
        return found

    def undecided(self) -> dict[int, int]:
        """Records by partition that wait for the end of an upstream producer's transaction."""
        consumer = self._app.consumer
        return {p: consumer.undecided(p) for p in list(self._assignment.positions)}

    def broker_silent_seconds(self) -> dict[str, float]:
        """Seconds by client since it last heard from a broker."""
        self._app.contact_watch.listen()
        return self._contact.silent_seconds()

    def refusal(self) -> str | None:
        """Why brokers refuse the worker's login, if they do."""
        return self._contact.refusal()

    def _silence(self, for_seconds: float | None = None) -> Silence | None:
        self._app.contact_watch.listen()
        return self._contact.silence(for_seconds)

    def _schemas_waiting(self) -> str | None:
        schemas = self._worker.schemas
        return None if schemas is None else schemas.waiting

    def rocksdb_bytes(self) -> int:
        """Memory that the databases use."""
        return self._worker.surroundings.databases.memory_bytes

    def stall(self) -> str | None:
        """The present hindrance of progress, if any; the watchdog ends a lasting hindrance.

        An outage is no hindrance, because a restart would not end it. It counts as one only if all
        clients are silent: if the consumer alone is, a restart may help.
        """
        app = self._app
        outage = self._silence(self._outage_seconds)
        if outage is not None and outage.everywhere:
            return None
        assignment = self._assignment
        if assignment.doubt is not None:
            return f"a commit is in doubt: {assignment.doubt}"
        if app.rebalancing:
            return "the group is rebalancing"
        if assignment.progress.is_busy:
            return BUSY
        if assignment.membership is not None and not assignment.is_flowing:
            return "partitions are being taken over"
        if self._schemas_waiting():
            return None  # an outage too
        behind = {p: lag for p, lag in self.lag().items() if lag}
        return f"there is lag and nothing arrives: {behind}" if behind else None

    @property
    def progressed_at(self) -> float:
        """`time.monotonic()` of the last progress: a part of a micro-batch, commit or takeover."""
        return self._assignment.progress.at

    def owner_of(self, entity_id: str) -> tuple[bool, str | None]:
        """Ownership of the entity's partition by this worker, and the owner's URL, if known."""
        partition = partition_of(entity_id, self._partitions)
        if partition in self._assignment.positions:
            return True, str(self._app.conf.canonical_url)
        for url, partitions in self._held():
            if partition in partitions:
                return False, url
        return False, None

    def not_yet(self, entity_id: str) -> str:
        """How far the entity's partition is behind, in words; empty if it reads what has come
        within `BEHIND_SECONDS`.
        """
        partition = partition_of(entity_id, self._partitions)
        lag, waits = self.lag().get(partition), self.oldest_unprocessed_seconds().get(partition)
        if lag == 0 or (waits is not None and waits < BEHIND_SECONDS):
            return ""
        return "not yet: " + (f"{many(lag, 'records')} behind" if lag else "reading is to begin")

    async def view(self, entity_id: str, kind: Reads[V], extent: Extent | None = None) -> V | None:
        """The entity's view as of the last commit, or None. Raises NotHere, NoFacets."""
        partition = partition_of(entity_id, self._partitions)
        return await self._worker.summaries.read(partition, entity_id, kind, extent)

    async def ask(self, entity_id: str, question: Question, vector: Vector | None) -> Answer | None:
        """The entity's answer as of the last commit; see `ViewReader.ask`."""
        partition = partition_of(entity_id, self._partitions)
        return await self._worker.summaries.ask(partition, entity_id, question, vector)

    def describe(self) -> dict[str, Any]:
        """Identity, readiness and partitions of the worker, and the partitions of the others."""
        ready, reason = self.ready()
        membership, roles = self._assignment.membership, dict(self._assignment.roles)
        return {
            "version": build(),
            "instance_id": self._worker.settings.instance_id,
            "group": self._worker.settings.app_id,
            "member_id": None if membership is None else membership.member_id,
            "epoch": self._worker.settings.epoch,
            "native": not self._worker.why_python,
            "facets": bool(self._worker.settings.facets),
            "input_topic": self._worker.settings.input_topic,
            "embedder": self._worker.settings.embedder,
            "reads": list(self._worker.dead_letters.model_languages),
            "unread": self._worker.dead_letters.unread,
            "review_url": self._worker.settings.review_url,
            "url": str(self._app.conf.canonical_url),
            "ready": ready,
            "reason": reason,
            "waiting_for": self.stall(),
            "partition_count": self._partitions,
            "lag": {str(partition): lag for partition, lag in sorted(self.lag().items())},
            "passed": {str(partition): both for partition, both in sorted(self.passed().items())},
            "standbys": sorted(p for p, role in roles.items() if role is Role.STANDBY),
            "others": self.others(),
        }

    async def entities(
        self, partitions: Iterable[int], search: EntitySearch, limit: int, seconds: float
    ) -> Page:
        """The next entities of own partitions; searches for `seconds`. Raises NotHere."""
        return await self._worker.entities.read(partitions, search, limit, seconds)

    def others(self) -> dict[str, list[int]]:
        """The partitions of other workers by URL, as the group has assigned them."""
        found = {}
        for url, partitions in self._held():
            if others := set(partitions) - self._assignment.positions.keys():
                found[url] = sorted(others)
        return found

    def _held(self) -> Iterator[tuple[str, Iterable[int]]]:
        """Web addresses and partitions of the members. An address may be invalid: any member of
        the group can send one.
        """
        for url, topics in self._app.router.tables_metadata().items():
            try:
                address = web_origin(str(url))
            except ValueError as error:
                if count := self._ignored.count():
                    log.warning(
                        "ignored the web address of another worker (%d times): %s", count, error
                    )
            else:
                yield address, topics.get(self._worker.logs.changelog.topic, ())
