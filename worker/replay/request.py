"""The request of a replay, and the settings of its worker."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from worker.errors import SetupError
from worker.events.messages import timestamp
from worker.kafka.topics import TopicSpec, changelog_topic, topic_specs
from worker.processing.config import Emit, RecordSelection
from worker.replay.record_source import RecordSource
from worker.settings import Settings

By = Literal["timestamp", "occurred_at"]
NAME = re.compile(r"[a-zA-Z0-9._-]{1,60}")
KEPT_FOR_EVER = "-1"
ACCEPT_GONE = "--accept-gone"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request of a replay."""

    name: str  # of the replay; the same name resumes it
    topic: str  # the history; empty if it is in plain files
    history: RecordSource | None = None  # its part in files
    to_topic: str | None  # publishes summaries there; None: to no public topic
    to_file: Path | None = None  # writes them there, and facets
    emit: Emit = "every"  # which summaries
    since_ms: int | None = None  # from then on; None: from the beginning
    until_ms: int | None = None  # before then; None: up to the end at the start of the replay
    by: By = "timestamp"  # compares the timestamp of the record, or of the event
    entities: frozenset[str] | None = None  # only these; None: all
    partitions: frozenset[int] | None = None  # only these; None: all
    accept_gone: bool = False  # whether a worker may continue without records that are gone

    @property
    def selection(self) -> RecordSelection:
        """Selects among the records before the ends."""
        by_event = self.by == "occurred_at"
        return RecordSelection(
            entities=None
            if self.entities is None
            else frozenset(entity.encode() for entity in self.entities),
            since_ms=self.since_ms if by_event else None,
            until_ms=self.until_ms if by_event else None,
        )

    @property
    def is_whole(self) -> bool:
        """True if all history is published to a topic, so that a worker may continue."""
        is_all = self.selection.is_all and self.since_ms is None and self.partitions is None
        return is_all and self.to_topic is not None and bool(self.topic)

    def facts(self) -> dict[str, str]:
        """The options that must be the same when the replay resumes, by name."""
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
            ACCEPT_GONE: "yes" if self.accept_gone else "no",
        }

    def lacking(self, gone: Mapping[str, int]) -> dict[str, int]:
        """The missing records before these offsets that keep the replay from being complete."""
        return dict(gone) if self.is_whole and not self.accept_gone else {}


def _time(milliseconds: int | None, otherwise: str) -> str:
    return otherwise if milliseconds is None else timestamp(milliseconds) or str(milliseconds)


def _digest(names: frozenset[str] | None) -> str:
    if names is None:
        return "all"
    digest = sha256("\0".join(sorted(names)).encode()).hexdigest()
    return f"{len(names)} ({digest[:12]})"


@dataclass(frozen=True)
class ReplayIdentity:
    """Names and settings of a replay, from its request and the live worker's settings."""

    live: Settings
    request: Request

    def __post_init__(self) -> None:
        """Raises SetupError for an impossible name or topic."""
        if not NAME.fullmatch(self.request.name):
            raise SetupError(
                f"--name {self.request.name!r}: up to 60 letters, digits, dots, dashes and "
                "underscores"
            )
        if self.request.to_topic in (
            self.live.output_topic,
            self.live.input_topic,
            self.live.dlq_topic,
            self.live.facets_topic,
        ):
            raise SetupError(
                f"--to {self.request.to_topic}: that is a topic of the live worker: name another "
                "one, each build of the summaries has its own"
            )
        if self.request.to_topic in (self.request.topic, changelog_topic(self.live)):
            raise SetupError(
                f"--to {self.request.to_topic}: that topic holds the history or the live worker's "
                "state: name another one"
            )
        if self.live.facets and self.request.to_topic == self.facets_topic:
            raise SetupError(
                f"--to {self.request.to_topic}: the replay's facets go to that topic: name another "
                "one"
            )

    def advised(self, message: str) -> str:
        """A worker's message with a replay's advice: `reset` would reset the live worker."""
        return message.replace(
            "`coversumm-worker reset`", f"`replay --name {self.request.name} --restart`"
        )

    @property
    def app_id(self) -> str:
        """The group of the replay's workers."""
        return f"{self.live.app_id}-replay-{self.request.name}"

    @property
    def plan_topic(self) -> str:
        """The topic of the plan."""
        return plan_topic(self.app_id)

    @property
    def output_topic(self) -> str:
        """The topic of the summaries; a private one if they go to a file, or nowhere."""
        return self.request.to_topic or f"{self.app_id}-output"

    @property
    def facets_topic(self) -> str:
        """The topic of the facets, beside that of the summaries; the live one without facets."""
        if not self.live.facets:
            return self.live.facets_topic
        if self.request.to_topic is None:
            return f"{self.app_id}-facets"
        return f"{self.live.facets_topic}.{self.request.name}"

    @property
    def output_format(self) -> str:
        """JSON instead of Avro where no public topic has the summaries, and so no schema."""
        live = self.live.output_format
        return "json" if live == "avro" and self.request.to_topic is None else live

    @property
    def published_topics(self) -> list[str]:
        """The topic of the summaries, then that of the facets if there are any."""
        return [self.output_topic, *([self.facets_topic] if self.live.facets else [])]

    @property
    def settings(self) -> Settings:
        """The settings of the replay's worker."""
        return replace(
            self.live,
            app_id=self.app_id,
            input_topic=self.request.topic or f"{self.app_id}-input",
            output_topic=self.output_topic,
            facets_topic=self.facets_topic,
            dlq_topic=f"{self.app_id}-dlq",
            output_format=self.output_format,
            data_dir=self.live.data_dir / f"replay-{self.request.name}",
            # plain files have events or bare reviews
            mapping=self.live.mapping if self.request.topic else None,
        )

    @property
    def specs(self) -> Mapping[str, TopicSpec]:
        """Its topics by role."""
        specs = topic_specs(self.settings)
        if self.request.to_topic is None:
            public = [specs.pop(role) for role in ("output", "facets") if role in specs]
            # the file has every change, and compaction would keep only the last
            if self.request.to_file is not None:
                kept = {"cleanup.policy": "delete", "retention.ms": KEPT_FOR_EVER}
                specs |= {s.role: replace(s, config={**s.config, **kept}) for s in public}
        return specs


PLAN = "-plan"  # suffix of the topic of a replay's plan, after its group


def plan_topic(app_id: str) -> str:
    """The topic of the plan of the replay with this group."""
    return f"{app_id}{PLAN}"


def default_topic(live: Settings, name: str) -> str:
    """The default topic of the summaries."""
    return f"{live.output_topic}.{name}"
