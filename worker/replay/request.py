"""What a replay is asked for, and the settings of the worker that does it."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from worker.clock import Clock
from worker.errors import SetupError
from worker.events.messages import timestamp
from worker.kafka.topics import TopicSpec, changelog_topic, topic_specs
from worker.processing.config import Emit, RecordSelection
from worker.replay.record_source import RecordSource
from worker.settings import Settings

By = Literal["timestamp", "occurred_at"]
NAME = re.compile(r"[a-zA-Z0-9._-]{1,60}")
KEPT_FOR_EVER = "-1"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for.

    Attributes:
        name: of the replay: the same name goes on with it.
        topic: the history; empty where it is in plain files.
        history: what of it is in files.
        to_topic: where summaries are published; None: nowhere, or not for others.
        to_file: where they are written.
        emit: which of them.
        since_ms: from then on; None: from the beginning.
        until_ms: before then; None: up to the end as it is at the start.
        by: whose time that is, the record's or the event's own.
        entities: of these alone; None: of all.
        partitions: of these alone; None: of all.
    """

    name: str
    topic: str
    history: RecordSource | None = None
    to_topic: str | None
    to_file: Path | None = None
    emit: Emit = "every"
    since_ms: int | None = None
    until_ms: int | None = None
    by: By = "timestamp"
    entities: frozenset[str] | None = None
    partitions: frozenset[int] | None = None

    @property
    def selection(self) -> RecordSelection:
        """Of the records below the ends."""
        by_event = self.by == "occurred_at"
        return RecordSelection(
            entities=None
            if self.entities is None
            else frozenset(one.encode() for one in self.entities),
            since_ms=self.since_ms if by_event else None,
            until_ms=self.until_ms if by_event else None,
        )

    @property
    def is_whole(self) -> bool:
        """Whether all of the history up to the end is published to a topic: a worker may go on from
        it.
        """
        is_all = self.selection.is_all and self.since_ms is None and self.partitions is None
        return is_all and self.to_topic is not None and bool(self.topic)

    def facts(self) -> dict[str, str]:
        """What must be the same wherever the replay is gone on with, by the name of its option."""
        return {
            "--from": self.topic if self.history is None else self.history.name,
            "--to": self.to_topic or ("file" if self.to_file else "none"),
            "--emit": self.emit,
            "--since": _time(self.since_ms, "the beginning"),
            "--until": _time(self.until_ms, "latest"),
            "--by": self.by,
            "--entities": _digest(self.entities),
            "--partitions": "all"
            if self.partitions is None
            else ",".join(map(str, sorted(self.partitions))),
        }


def _time(milliseconds: int | None, otherwise: str) -> str:
    return otherwise if milliseconds is None else timestamp(milliseconds) or str(milliseconds)


def _digest(names: frozenset[str] | None) -> str:
    if names is None:
        return "all"
    digest = sha256("\0".join(sorted(names)).encode()).hexdigest()
    return f"{len(names)} ({digest[:12]})"


@dataclass(frozen=True)
class ReplayIdentity:
    """What a replay has of its own, by its name and the live worker's settings."""

    live: Settings
    request: Request
    app_id: str = field(init=False)

    def __post_init__(self) -> None:
        """Raises SetupError for what cannot be."""
        if not NAME.fullmatch(self.request.name):
            raise SetupError(
                f"--name {self.request.name!r}: up to 60 letters, digits, dots, dashes and underscores"
            )
        object.__setattr__(self, "app_id", f"{self.live.app_id}-replay-{self.request.name}")
        if self.request.to_topic in (
            self.live.output_topic,
            self.live.input_topic,
            self.live.dlq_topic,
        ):
            raise SetupError(
                f"--to {self.request.to_topic}: that is a topic of the live worker: name another one, each build of the "
                "summaries has its own"
            )
        if self.request.to_topic in (self.request.topic, changelog_topic(self.live)):
            raise SetupError(
                f"--to {self.request.to_topic}: that topic holds the history or the live worker's state: name another one"
            )

    def advised(self, told: str) -> str:
        """What a worker's errors advise, for a replay: a reset would be the live worker's."""
        return told.replace(
            "`coversumm-worker reset`", f"`replay --name {self.request.name} --restart`"
        )

    @property
    def plan_topic(self) -> str:
        """Where the plan is kept."""
        return plan_topic(self.app_id)

    @property
    def output_topic(self) -> str:
        """Where summaries are published; towards a file, or nowhere, nobody else reads it."""
        return self.request.to_topic or f"{self.app_id}-output"

    @property
    def settings(self) -> Settings:
        """Of the worker that does it."""
        return replace(
            self.live,
            app_id=self.app_id,
            input_topic=self.request.topic or f"{self.app_id}-input",
            output_topic=self.output_topic,
            dlq_topic=f"{self.app_id}-dlq",
            data_dir=self.live.data_dir / f"replay-{self.request.name}",
        )

    @property
    def specs(self) -> Mapping[str, TopicSpec]:
        """The topics it needs, by role."""
        specs = topic_specs(self.settings)
        if self.request.to_topic is None:
            output = specs.pop("output")
            # every change is wanted, and compaction would keep the last
            if self.request.to_file is not None:
                kept = {"cleanup.policy": "delete", "retention.ms": KEPT_FOR_EVER}
                specs["output"] = replace(output, config={**output.config, **kept})
        return specs


def plan_topic(app_id: str) -> str:
    """Where the plan of the replay with this group is kept."""
    return f"{app_id}-plan"


def default_topic(live: Settings, name: str) -> str:
    """Where summaries are published if nothing is said."""
    return f"{live.output_topic}.{name}"


TURN_SECONDS = 0.25
"""What is read at once is what may be read in so long: others on the machine get it back in small
pieces, not in large ones.
"""


class RateThrottle:
    """Keeps to rates over the long run; what was not used for a second is not saved up.

    Args:
        events_per_s: at most so many; None: any number.
        bytes_per_s: of keys and values; None: any number.
        clock: measures.
    """

    def __init__(
        self, events_per_s: float | None, bytes_per_s: float | None, clock: Clock = time
    ) -> None:
        self._events_per_s = events_per_s
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._due = clock.monotonic()  # when all that was read so far should have been

    @property
    def is_on(self) -> bool:
        """Whether there is a rate to keep to."""
        return self._events_per_s is not None or self._bytes_per_s is not None

    @property
    def events_at_once(self) -> int | None:
        """Events of a micro-batch, at least one; None: any number."""
        return (
            None if self._events_per_s is None else max(1, round(self._events_per_s * TURN_SECONDS))
        )

    @property
    def bytes_at_once(self) -> int | None:
        """Bytes of a micro-batch of several events; None: any number."""
        return (
            None if self._bytes_per_s is None else max(1, round(self._bytes_per_s * TURN_SECONDS))
        )

    def pause(self, events: int, size: int) -> float:
        """See `worker.stream.run_bounds.Throttle`."""
        now = self._clock.monotonic()
        seconds = max(
            events / self._events_per_s if self._events_per_s else 0.0,
            size / self._bytes_per_s if self._bytes_per_s else 0.0,
        )
        self._due = max(self._due, now - 1.0) + seconds
        return max(0.0, self._due - now)
