"""One process of a replay: the shared plan, the bounds of its worker, the progress of all; and
whether a live worker may continue from it.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import NamedTuple

from worker.clock import Clock
from worker.errors import SetupError
from worker.events import Limits, Record
from worker.kafka.agreement import AgreedRecord
from worker.kafka.clients import Clients
from worker.kafka.errors import broker_errors, patiently
from worker.kafka.offsets import TIMEOUT_SECONDS, CommittedOffset, committed_offsets
from worker.kafka.reader import TopicReader
from worker.kafka.topic_ids import TopicIds
from worker.kafka.topics import Topics
from worker.parts import Parts
from worker.processing.config import ProcessorConfig
from worker.processing.embed import VectorStore
from worker.registry.lookup import SchemaLookup
from worker.replay.archive_check import Holes, check_log, holes_of, listed
from worker.replay.estimate import Estimate, Read, estimate
from worker.replay.ledger import Account, ReplayLedger, read_note, total
from worker.replay.plan import (
    MAPPING,
    NONE,
    OUTPUT_FORMAT,
    ReplayPlan,
    decode_plan,
    refuse_other,
    shown_gone,
)
from worker.replay.ranges import Range, check_ends, gone_before, ranges_of
from worker.replay.record_source import Archived, filled
from worker.replay.request import ACCEPT_GONE, PLAN, ReplayIdentity, Request, plan_topic
from worker.settings import Settings
from worker.stream.run_bounds import RateThrottle, RunBounds

log = logging.getLogger(__name__)


def stored_plan(app_id: str, clients: Clients) -> ReplayPlan | None:
    """The plan of the replay with this group, if it is one. Raises SetupError."""
    topic = plan_topic(app_id)
    value = AgreedRecord(clients, clients.admin(), topic).read()
    return None if value is None else decode_plan(value, f"the topic {topic}")


def refuse_shared(names: ReplayIdentity, clients: Clients) -> None:
    """Raise SetupError if a topic that this replay publishes to is in another replay's plan."""
    admin = clients.admin()
    with broker_errors("no answer from the broker"):
        topics = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
    others = [
        name.removesuffix(PLAN) for name in topics if "-replay-" in name and name.endswith(PLAN)
    ]
    for group in sorted({*others} - {names.app_id}):
        try:
            plan = stored_plan(group, clients)
        except SetupError as cause:
            log.warning("the topics of another replay are unknown: %s", cause)
            continue
        published = () if plan is None else (plan.output_topic, plan.facets_topic)
        if shared := [topic for topic in names.published_topics if topic in published]:
            raise SetupError(
                f"the topic {shared[0]} belongs to the replay of the group {group}: give this one "
                f"another --name and --to. If nobody needs that replay and its workers any more, "
                f"delete {shared[0]} and {plan_topic(group)}"
            )


class ReplayProgress(NamedTuple):
    """A replay's progress: offsets done and in total, and the account of all partitions."""

    done: int
    size: int
    account: Account


@dataclass(eq=False)
class Replay:
    """One replay."""

    names: ReplayIdentity
    clients: Clients
    throttle: RateThrottle = field(default_factory=RateThrottle)
    clock: Clock = time
    plan: ReplayPlan | None = field(default=None, init=False)  # once it is known
    holes: Holes = field(default=Holes(), init=False)  # what files lack, once known
    gone: dict[str, int] = field(default_factory=dict, init=False)
    """By partition the first offset that retention has left, once an estimate is known."""

    def __post_init__(self) -> None:
        self.settings = self.names.settings

    def bounds(self, partitions: int, parts: Parts) -> RunBounds:
        """The bounds of this process's worker, from the existing plan or a new one.

        Asks again while brokers are away. Raises SetupError if another replay of this name has
        begun, or there is nothing to read.
        """
        return patiently(lambda: self._agreed_bounds(partitions, parts), self.clock)

    def _agreed_bounds(self, partitions: int, parts: Parts) -> RunBounds:
        topic = self.names.plan_topic
        record = AgreedRecord(self.clients, self.clients.admin(), topic)
        value = record.agree(
            lambda: self._made(partitions, parts).encode(),
            lambda: refuse_shared(self.names, self.clients),  # another may have begun at once
        )
        self.plan = decode_plan(value, f"the topic {topic}")
        self.check_plan(parts)
        return self.keep_to(self.plan)

    def keep_to(self, plan: ReplayPlan) -> RunBounds:
        """The bounds of this process's worker, from this plan."""
        self.plan, self.holes = plan, plan.holes
        request, ranges = self.names.request, plan.by_partition
        for line in self.holes.lines():
            log.warning("%s", line)
        if plan.gone:
            log.warning("%s", not_whole(plan.gone))
        filled_from = {int(partition): offset for partition, offset in plan.filled_from.items()}
        ends = {partition: span.end for partition, span in ranges.items()}
        return RunBounds(
            first={partition: span.first for partition, span in ranges.items()},
            ends=ends,
            emit=request.emit,
            selection=request.selection,
            ledger=ReplayLedger(ends),
            throttle=self.throttle,
            history=filled(request.history, self.clients, self.settings.app_id, filled_from),
            open_partitions=self.open_partitions,
            topic_id=plan.topic_id,
        )

    def check_plan(self, parts: Parts) -> None:
        """Raise SetupError if the plan is another replay's, or that of another topic."""
        assert self.plan is not None
        plan, request = self.plan, self.names.request
        made_with = self._made_with(len(plan.ranges), parts)
        refuse_other(request.name, plan, request.facts(), made_with, self._read_with())
        self._topic_ids({plan.topic: plan.topic_id})
        in_files = _in_files(request)
        ends = {
            p: span.end
            for p, span in plan.by_partition.items()
            if p not in in_files or span.end > in_files[p].stop
        }
        check_ends(self.clients, self.settings.app_id, plan.topic, ends, self.clock)

    def _topic_ids(self, planned: Mapping[str, str]) -> TopicIds:
        """The input's id, fetched. Raises SetupError if it is not the planned one."""
        ids = TopicIds(
            self.clients,
            (self.settings.input_topic,),
            {},
            self.settings.commit_timeout_ms / 1000,
            self.clock,
            planned=planned,
        )
        ids.read()
        return ids

    def _made_with(self, partitions: int, parts: Parts) -> dict[str, str]:
        """Its fingerprint, mapping and output format: one replay gives one result."""
        fields = self._config(partitions, parts).fingerprint.fields()
        digest = NONE if parts.mapping is None else parts.mapping.digest
        return {**fields, MAPPING: digest, OUTPUT_FORMAT: self.settings.output_format}

    def _read_with(self) -> dict[str, str]:
        """Other facts that decide a result: limits, the registry, and files with their columns."""
        history, names = self.names.request.history, [limit.name for limit in fields(Limits)]
        limits = [name for name in names if name.startswith("max_")]
        return {
            **{
                f"COVERSUMM_{limit.upper()}": str(getattr(self.settings, limit))
                for limit in (*limits, "emit_min_changes", "emit_mentions")
            },
            "schema registry": NONE if self.settings.schema_registry_url is None else "used",
            **({} if history is None else history.read_with),
        }

    def _config(self, partitions: int, parts: Parts) -> ProcessorConfig:
        """Configure its processors. Raises SetupError for a mapping of headers: files lack them."""
        mapping, request = parts.mapping, self.names.request
        if mapping is not None and mapping.reads_headers and request.history is not None:
            raise SetupError(
                f"COVERSUMM_MAPPING={self.settings.mapping} reads headers of {mapping.topic} (ce, "
                "header:NAME, in Python the word headers), and an archive has none: replay from "
                "the topic"
            )
        return parts.config(partitions, request.emit, request.selection)

    def estimate(self, parts: Parts, vectors: VectorStore | None) -> Estimate:
        """The estimated duration of the replay, by a sample; begins nothing. Raises SetupError."""
        partitions = (
            Topics(self.settings, self.clients).input_partitions if self.names.request.topic else 1
        )
        request, ranges = self._found_ranges(partitions)
        self.holes, self.gone = holes_of(request.history, ranges), gone_before(ranges)
        config = self._config(partitions, parts)
        with self._reading(request, parts.schemas) as read:
            return estimate(read, ranges, config, parts.engine, vectors, self.throttle)

    @contextmanager
    def _reading(self, request: Request, schemas: SchemaLookup | None) -> Iterator[Read]:
        """A reader of both files and topic, with the schemas of what it reads."""
        in_files = _in_files(request)
        with ExitStack() as opened:
            reader = None
            if request.topic:
                topic = self.settings.input_topic
                reader = opened.enter_context(
                    TopicReader(self.clients, topic, self.settings.app_id)
                )

            def read(partition: int, start: int, end: int) -> Iterator[Record]:
                for record in stored(partition, start, end):
                    if schemas is not None:
                        schemas.require([record])
                    yield record

            def stored(partition: int, start: int, end: int) -> Iterator[Record]:
                if request.history is not None and start in in_files.get(partition, ()):
                    records = request.history.read(partition, start)
                    yield from takewhile(lambda record: record.offset < end, records)
                elif reader is not None:
                    for record, headers in reader.read(partition, start, end):
                        yield record._replace(headers=tuple(headers.items()), refused=None)

            yield read

    def prepare(self) -> None:
        """Create the empty topic for which the group commits the line numbers of plain files."""
        if not self.names.request.topic:
            topics = Topics(self.settings, self.clients)
            topics.create([spec for spec in topics.missing() if spec.role == "input"], 1)

    def _made(self, partitions: int, parts: Parts) -> ReplayPlan:
        refuse_shared(self.names, self.clients)
        topic = self.settings.input_topic
        ids = self._topic_ids({})
        request, ranges = self._found_ranges(partitions)
        history = request.history
        filled_from = history.filled_from if isinstance(history, Archived) else {}
        holes = holes_of(history, ranges)
        gone = request.lacking(gone_before(ranges))
        return ReplayPlan(
            begun=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            request=request.facts(),
            made_with=self._made_with(partitions, parts),
            read_with=self._read_with(),
            whole=request.is_whole and _is_proven(holes, ranges) and not gone,
            topic=topic,
            topic_id=ids.known(topic) or "",
            output_topic=request.to_topic,
            facets_topic=self.names.facets_topic
            if self.settings.facets and request.to_topic is not None
            else None,
            ranges={str(partition): span for partition, span in ranges.items()},
            holes=holes,
            filled_from={str(partition): offset for partition, offset in filled_from.items()},
            gone=gone,
        )

    def _found_ranges(self, partitions: int) -> tuple[Request, dict[int, Range]]:
        """The request with its archive filled from the topic, and the ranges to read."""
        group = self.settings.app_id
        history = filled(self.names.request.history, self.clients, group)
        request = replace(self.names.request, history=history)
        if isinstance(history, Archived):
            check_log(history, self.clients, group, request.partitions, self.clock)
        return request, ranges_of(request, self.clients, self.settings, partitions)

    def found(self) -> ReplayPlan | None:
        """The existing plan, if any."""
        self.plan = stored_plan(self.names.app_id, self.clients)
        return self.plan

    def open_partitions(self) -> list[int]:
        """The partitions that are not over. Raises KafkaException, as `progress` does."""
        assert self.plan is not None
        found = accounts(self.clients, self.settings.app_id, self.plan, self.clock)
        return [partition for partition, (_, account) in found.items() if not account.over]

    def progress(self) -> ReplayProgress:
        """The progress of all processes together, once a plan is known."""
        assert self.plan is not None
        found = accounts(self.clients, self.settings.app_id, self.plan, self.clock)
        done = sum(
            span.size if account.over else min(max(0, offset - span.first), span.size)
            for partition, (offset, account) in found.items()
            for span in [self.plan.by_partition[partition]]
        )
        account = total(account for _, account in found.values())
        return ReplayProgress(done, self.plan.size, account)


def _in_files(request: Request) -> Mapping[int, range]:
    return {} if request.history is None else request.history.partitions()


def not_whole(gone: Mapping[str, int]) -> str:
    """Why no worker can continue from a replay without these records, and what to do."""
    return (
        f"retention has removed the records of {shown_gone(gone)}: no worker can continue from "
        f"this replay; name files that have them with --from, or accept the loss with {ACCEPT_GONE}"
    )


def _is_proven(holes: Holes, ranges: Mapping[int, Range]) -> bool:
    """True if no record can be missing. An unreadable row may precede the first record."""
    return not holes.missing and (
        not holes.unreadable or all(span.log_start == 0 for span in ranges.values())
    )


def accounts(
    clients: Clients, group: str, plan: ReplayPlan, clock: Clock = time
) -> dict[int, tuple[int, Account]]:
    """The next offset and the account, by partition, that a replay's group has committed.

    Raises KafkaException if the broker does not answer.
    """
    ranges = plan.by_partition
    with closing(clients.standalone_consumer(group, "read_committed")) as consumer:
        found = committed_offsets(consumer, plan.topic, sorted(ranges), clock=clock)
    return {partition: _account(span, found.get(partition)) for partition, span in ranges.items()}


def _account(planned: Range, committed: CommittedOffset | None) -> tuple[int, Account]:
    if committed is None:
        return planned.first, Account()
    offset, note = committed
    account = read_note(note)
    # A live worker that continued the replay commits no notes.
    account.over = account.over or offset > planned.end or (offset == planned.end and not note)
    return offset, account


def check_resumable(settings: Settings, clients: Clients) -> None:
    """Raise SetupError if the settings' group is that of a replay that is partial or not over.

    A worker would publish changes of summaries that were never published, or of a part of the
    history.
    """
    plan = stored_plan(settings.app_id, clients)
    if plan is None:
        return
    if plan.holes.missing or (plan.holes.unreadable and not plan.whole):
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of files that lack records "
            f"({listed(plan.holes.missing) or f'unreadable rows: {plan.holes.unreadable:,}'}): "
            "complete the archive and replay it with --restart"
        )
    if plan.gone:
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id}: {not_whole(plan.gone)}, and --restart"
        )
    if not plan.whole:
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of a part of the history, or to no "
            "topic: a worker cannot continue from it"
        )
    open_ones = {
        p: account
        for p, (_, account) in accounts(clients, settings.app_id, plan).items()
        if not account.over
    }
    if not open_ones:
        return
    named = ", ".join(map(str, open_ones))
    if any(account != Account() for account in open_ones.values()):
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay that is not over (partitions "
            f"{named}): let `replay` end first"
        )
    # Only the replay knows whether its records before the log's start come from files: a worker
    # would begin after them.
    raise SetupError(
        f"COVERSUMM_APP_ID={settings.app_id} is a replay, and its group has no account of the "
        f"partitions {named}: the replay has not begun there, or the offsets were reset or have "
        "expired since; give the same `replay` command again, which skips what the state has, then "
        "start the worker"
    )
