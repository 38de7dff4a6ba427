"""The log of a worker's life: its start, when it is ready, each rebalance, its stop.

One line each, and none between. A commit in doubt has two, because its decision may take long.
Every line has its facts as fields beside it (`extra={"facts": ...}`), for logs in JSON.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final, NamedTuple

from worker import build
from worker.clock import Clock
from worker.errors import many
from worker.events import Ignored
from worker.events.notes import EMPTY, FILLED, LEFT_OUT
from worker.kafka.topics import topic_specs
from worker.processing.stats import Coordinates, Stats
from worker.settings import Settings
from worker.stream.surroundings import Threads
from worker.text.declared import facts_of, unread_note
from worker.text.engine import EmbeddingEngine

log = logging.getLogger(__name__)


def log_start(
    settings: Settings,
    partitions: int,
    engine: EmbeddingEngine | None,
    named_languages: Collection[str] = (),
) -> None:
    """Log what starts, and with which settings, before the worker joins its group.

    `partitions` is the input's partition count; without an `engine` events bring their embeddings.
    `named_languages` are those of the facets.
    """
    if engine is None:
        model, dimension = "none: events bring their embeddings", settings.dimension
    else:
        model, dimension = engine.model, engine.dimension
    languages = list(facts_of(engine).languages or ())
    reads = f", reads {', '.join(languages)}" if languages else ""
    topics = {spec.role: spec.name for spec in topic_specs(settings).values()}
    named = ", ".join(f"{role} {name}" for role, name in topics.items())
    changed = settings.changed()
    shown = " ".join(f"{variable}={value}" for variable, value in changed.items())
    _info(
        f"coversumm-worker {build()} starts: Kafka {settings.bootstrap_servers}, "
        f"group {settings.app_id}, instance {settings.instance_id}, "
        f"web {settings.web_advertised_url}, data {settings.data_dir}",
        version=build(),
        bootstrap_servers=settings.bootstrap_servers,
        group=settings.app_id,
        instance=settings.instance_id,
        web=settings.web_advertised_url,
        data_dir=str(settings.data_dir),
    )
    if settings.web_page:
        page = f"{settings.local_url}{settings.web_path}/"
        _info(f"the page, once it is ready: {page}", page=page)
    of = many(partitions, "partitions")
    _info(f"topics of {of}: {named}", topics=topics, topic_partitions=partitions)
    _info(
        f"summaries of {many(settings.k, 'sentences')}, epoch {settings.epoch}; "
        f"model {model}, {dimension} dimensions{reads}",
        k=settings.k,
        epoch=settings.epoch,
        model=model,
        dimension=dimension,
        model_languages=languages,
    )
    if languages and (missing := sorted(set(named_languages) - set(languages))):
        log.warning(
            "COVERSUMM_FACETS names languages that the model does not read: %s; phrases find few "
            "sentences in them: take a multilingual model",
            ", ".join(missing),
            extra={"facts": {"languages": missing}},
        )
    _info(f"settings that differ from their defaults: {shown or 'none'}", settings=changed)


class Held(NamedTuple):
    """Partitions that a worker processes, and those that it keeps a copy of."""

    processed: list[int]
    standby: list[int]

    def __str__(self) -> str:
        copies = f" and a copy of {shown_ranges(self.standby)}" if self.standby else ""
        return shown_ranges(self.processed) + copies


class Journal:
    """Logs changes of a worker's assignment.

    `partitions` is the input's partition count; `started` is `clock.monotonic()` when the process
    began, now by default.
    """

    def __init__(self, clock: Clock, partitions: int, started: float | None = None) -> None:
        self._clock = clock
        self._partitions = partitions
        self._since: float | None = clock.monotonic() if started is None else started
        self._had: Held | None = None  # None before the first assignment
        self._doubt: str | None = None
        self._overtaken: str | None = None  # a doubt that a rebalance interrupted
        self._happened: bool | None = None
        self._restored: tuple[int, int, float] | None = None
        self._committed: Mapping[int, int] = {}

    def left(self, had: Held) -> None:
        """A rebalance begins: the worker stops to process these partitions."""
        self._overtaken = self._doubt or self._overtaken
        self._since, self._had, self._doubt = self._clock.monotonic(), had, None

    def doubted(self, why: str, had: Held) -> None:
        """A commit is in doubt: the worker stops until it is decided."""
        self._since, self._had = self._clock.monotonic(), had
        self._doubt, self._happened = why, None
        log.warning(
            "a commit is in doubt (%s): nothing is lost; the worker determines whether it happened",
            why,
            extra={"facts": {"doubt": why, "partitions": had.processed}},
        )

    def settled(self, happened: bool) -> None:
        """The commit in doubt is decided."""
        self._happened = happened

    def restored(self, rows: int, partitions: int, seconds: float) -> None:
        """These many partitions were restored to the changelog's end."""
        self._restored = rows, partitions, seconds

    def took(self, has: Held) -> None:
        """A takeover is over: the worker processes these. Logs nothing without an interruption."""
        if self._since is None:
            return
        seconds = self._clock.monotonic() - self._since
        facts: dict[str, Any] = {
            "partitions": has.processed,
            "standbys": has.standby,
            "seconds": round(seconds, 3),
        }
        restored = ""
        if self._restored is not None:
            rows, count, took = self._restored
            restored = (
                f"; restored {many(rows, 'rows')} of {many(count, 'partitions')} in {took:.2f} s"
            )
            facts |= {"restored_rows": rows, "restore_seconds": round(took, 3)}
        if self._doubt is not None:
            outcome = "it had happened" if self._happened else "it had not, and is done again"
            line = (
                f"continues after {seconds:.2f} s with partitions {has}: the commit in doubt is "
                f"decided, {outcome}"
            )
            facts |= {"doubt": self._doubt, "committed": bool(self._happened)}
        elif self._had is None:
            line = f"ready after {seconds:.2f} s: processes partitions {has} of {self._partitions}"
        else:
            line = (
                f"rebalanced in {seconds:.2f} s: had partitions {self._had}, "
                f"has {has} of {self._partitions}"
            )
            facts |= {"had_partitions": self._had.processed, "had_standbys": self._had.standby}
        if self._overtaken is not None:
            line += "; the commit in doubt before it is decided"  # by the takeover's first step
            facts["doubt"] = self._overtaken
        _info(line + restored, **facts)
        self._since = self._restored = self._doubt = self._overtaken = None

    def ended(self, committed: Mapping[int, int]) -> None:
        """An assignment is over; by partition the next source offset to commit."""
        self._committed = dict(sorted(committed.items()))

    def stopped(self, by: str, seconds: float) -> None:
        """The worker has stopped in order."""
        offsets = ", ".join(f"{partition} to {end}" for partition, end in self._committed.items())
        _info(
            f"stopped by {by} in {seconds:.2f} s; "
            f"committed: {offsets or 'nothing, no partition was held'}",
            signal=by,
            seconds=round(seconds, 3),
            committed={str(partition): end for partition, end in self._committed.items()},
        )


def shown_ranges(partitions: Iterable[int]) -> str:
    """Numbers in order, neighbours as ranges: `0-3, 5`; `none` if there are none."""
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and partition == ranges[-1][-1] + 1:
            ranges[-1][1:] = [partition]
        else:
            ranges.append([partition])
    return ", ".join("-".join(map(str, ends)) for ends in ranges) or "none"


def log_form(why_python: str) -> None:
    """Log which form takes events; `why_python` is empty if native code takes the usual ones."""
    form = f"Python takes all events: {why_python}" if why_python else "native code takes events"
    _info(form, native=not why_python, why_python=why_python)


def _info(line: str, **facts: Any) -> None:
    log.info("%s", line, extra={"facts": facts})


FIRST_RECORDS: Final = 100
"""Records after which a worker that uses none of them says so."""
_UNUSED: Final = ("dead_letter:", f"ignored:{Ignored.BY_MAPPING}")
INTERVAL_SECONDS: Final = 60.0  # seconds between two lines about the same frequent event


@dataclass(eq=False)
class OnceAMinute:
    """Counts a frequent event; for one thread."""

    clock: Clock = time

    def __post_init__(self) -> None:
        self._count = 0
        self._next = float("-inf")

    def count(self) -> int:
        """The count since the last line, this time included; 0 if no line is due."""
        self._count += 1
        if self.clock.monotonic() < self._next:
            return 0
        found, self._count = self._count, 0
        self._next = self.clock.monotonic() + INTERVAL_SECONDS
        return found


@dataclass(eq=False)
class DeadLetterLog:
    """Counts the dead letters of committed micro-batches, values that a mapping left out, dates
    that count as unknown, and sentences that the model does not read, in any thread, and logs the
    counts. Warns once if nothing of the first records was used, and of a rule with `each` that
    takes no member.
    """

    threads: Threads
    topic: str | None = None  # the topic that has them, if the environment names another
    model_languages: Sequence[str] = ()  # that it declares

    def __post_init__(self) -> None:
        given = "" if self.topic is None else f"COVERSUMM_DLQ_TOPIC={quote(self.topic)} "
        self._command = f"{given}coversumm-worker dlq list"
        self._lock = self.threads.lock()
        self._counts: Counter[str] = Counter()
        self._first: dict[str, Coordinates] = {}
        self._future_dates = 0
        self._read, self._unread = 0, Counter[str]()  # sentences since the start
        self._noted: str | None = None
        self._unused = 0  # of the first records; FIRST_RECORDS once one was used
        self._notes: Counter[tuple[str, str]] = Counter()

    def count(self, stats: Stats) -> None:
        """A micro-batch was committed."""
        with self._lock:
            self._counts.update(stats.dead_letters())
            self._first = stats.first_letters | self._first
            self._future_dates += stats.future_dates
            self._read += stats.read_by_model.total()
            self._unread += stats.unread
            self._notes.update(stats.mapping_notes)
            for (kind, rule), number in stats.mapping_notes.items():
                empty = self._notes[EMPTY, rule]
                is_due = kind == EMPTY and empty >= FIRST_RECORDS > empty - number
                if is_due and not self._notes[FILLED, rule]:
                    log.warning(
                        "%s took no member of the lists of %d records: is a path of its conditions "
                        "misspelt? `coversumm-worker mapping check FILE --from-topic` shows it",
                        rule,
                        empty,
                        extra={"facts": {"rule": rule, "records": empty}},
                    )
            if self._unused < FIRST_RECORDS:
                is_used = any(not of.startswith(_UNUSED) for _, of in stats.outcomes)
                self._unused = FIRST_RECORDS if is_used else self._unused + stats.records
                if not is_used and self._unused >= FIRST_RECORDS:
                    self._warn_of_first()

    @property
    def unread(self) -> str | None:
        """A note on sentences since the start that the model does not read; None if few."""
        with self._lock:
            return unread_note(self._unread, self._read, "sentences", self.model_languages)

    def _warn_of_first(self) -> None:
        log.warning(
            "none of the first %d records was used: is COVERSUMM_INPUT_TOPIC the right topic, and "
            "COVERSUMM_MAPPING the file that says what its records mean? `%s` shows dead letters",
            self._unused,
            self._command,
            extra={"facts": {"records": self._unused}},
        )

    async def log_every_minute(self) -> None:
        """Log every minute, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            self.log_counts()

    def log_counts(self) -> None:
        """One line about the letters since the last one."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            first, self._first = self._first, {}
            dates, self._future_dates = self._future_dates, 0
            left_out = Counter({at: n for at, n in self._notes.items() if at[0] == LEFT_OUT})
            self._notes -= left_out
        if counts:
            by_reason = _by_count(counts)
            places = {reason: place._asdict() for reason, place in first.items()}
            log.warning(
                "dead letters in the last minute: %s; `%s` shows them",
                by_reason,
                self._command,
                extra={"facts": {"dead_letters": dict(counts), "first": places}},
            )
        if left_out:
            log.warning(
                "values that the mapping could not read in the last minute: %s; events go on "
                "without them; `coversumm-worker mapping check FILE --from-topic` shows some",
                _by_count(members := Counter({name: n for (_, name), n in left_out.items()})),
                extra={"facts": {"left_out": members}},
            )
        if dates:
            log.warning(
                "dates of the future in the last minute: %d; facets with newest or within_days "
                "take these reviews as undated until a later event has another date",
                dates,
                extra={"facts": {"future_dates": dates}},
            )
        if (note := self.unread) is not None and note != self._noted:
            self._noted = note
            log.warning("since the start %s: facets miss most of them", note)


def _by_count(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())
