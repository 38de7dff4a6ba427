"""Replays as an operator starts them, beside a pipeline; and a history to replay: events with times
of their own.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from confluent_kafka import KafkaException

from tests.harness.load import IN_ORDER, Sent
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import Process
from tests.harness.topics import Message, committed_offsets, producer, read_topic
from tests.harness.workers import (
    COMMAND,
    ROOT,
    Pipeline,
    WorkerError,
    clean_environment,
    run_command,
)

BEGINNING_MS = 1_672_531_200_000
"""Of every history: the year 2023."""
STEP_MS = 60_000
"""Between two of its events."""
LATE_STEPS = 30
"""How far back the timestamp of an event is at most that comes late."""


def write_history(
    site: Pipeline,
    events: Iterable[Sent],
    *,
    topic: str | None = None,
    late: float = 0.0,
    **config: Any,
) -> int:
    """The events into the input topic, or another, a minute between them by their timestamps; how
    many.

    A share of them comes `late`: after some whose timestamps are higher.
    """
    sending = producer(site.broker.bootstrap_servers, **IN_ORDER, **config)
    chance, number = random.Random(0), 0
    for event in events:
        back = chance.randrange(LATE_STEPS) if chance.random() < late else 0
        timestamp_ms = BEGINNING_MS + max(0, number - back) * STEP_MS
        sending.produce(topic or site.input_topic, event.value, event.key, timestamp=timestamp_ms)
        sending.poll(0)
        number += 1
    assert sending.flush(PATIENCE_SECONDS) == 0
    return number


def at(number: float) -> str:
    """The time of an event of the history, as an option takes it."""
    return datetime.fromtimestamp((BEGINNING_MS + number * STEP_MS) / 1000, UTC).isoformat()


class ReplayProcess(Process):
    """One process of a replay.

    Args:
        site: the pipeline whose history it is.
        arguments: of the command.
        label: of its data directory; processes of one replay have different ones.
        settings: COVERSUMM_ variables without the prefix.
    """

    def __init__(
        self, site: Pipeline, *arguments: str, label: str = "replay", **settings: str
    ) -> None:
        self._command = [*COMMAND, "replay", *arguments]
        own = {f"COVERSUMM_{name.upper()}": value for name, value in settings.items()}
        self._environment = clean_environment(
            {**site.environment, "COVERSUMM_DATA_DIR": str(site.directory / label), **own}
        )
        super().__init__(site.directory / f"{label}.log")
        self.name = label
        self._readers: list[threading.Thread] = []
        self._out: list[tuple[float, str]] = []
        self._err: list[tuple[float, str]] = []

    def start(self) -> ReplayProcess:
        """Start it, or start it again."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.launch(self._command, self._environment, cwd=ROOT, **pipes)
        process = self._process
        assert process is not None
        self._out, self._err = [], []
        self._readers = [
            threading.Thread(target=_stamp, args=streams, daemon=True)
            for streams in ((process.stdout, self._out), (process.stderr, self._err))
        ]
        for reader in self._readers:
            reader.start()
        return self

    def ready(self) -> bool:
        """Whether it runs."""
        return self.alive

    def log_text(self) -> str:
        """What it wrote to standard error since it was started last."""
        return self.errors

    @property
    def errors(self) -> str:
        """What it wrote to standard error since it was started last."""
        return "".join(line for _, line in self._err)

    @property
    def said(self) -> list[tuple[float, dict[str, Any]]]:
        """Its JSON lines, each with the time it came at (`time.monotonic`)."""
        return [(when, json.loads(line)) for when, line in self._out]

    def kill(self) -> None:
        """`kill -9`."""
        self.signal(signal.SIGKILL)
        self.wait(-signal.SIGKILL)

    def wait(  # type: ignore[override]
        self, code: int = 0, timeout_s: float = 3 * PATIENCE_SECONDS
    ) -> list[dict[str, Any]]:
        """Its JSON lines, once it ended with this exit code."""
        ended = super().wait(timeout_s)
        for reader in self._readers:
            reader.join(PATIENCE_SECONDS)
        if ended != code:
            out = "".join(line for _, line in self._out)
            raise WorkerError(f"ended with {ended}\n{out[-2000:]}\n{self.errors[-6000:]}")
        return [line for _, line in self.said]

    def report(self, timeout_s: float = 3 * PATIENCE_SECONDS) -> dict[str, Any]:
        """What it says at its end."""
        return next(line for line in self.wait(timeout_s=timeout_s) if line["type"] == "report")


def _stamp(stream: IO[str], lines: list[tuple[float, str]]) -> None:
    """Keep each line with the time it came at."""
    with stream:
        for line in stream:
            lines.append((time.monotonic(), line))


def replay(
    site: Pipeline, *arguments: str, label: str = "replay", **settings: str
) -> dict[str, Any]:
    """A replay from its start to its report."""
    return ReplayProcess(site, *arguments, label=label, **settings).start().report()


def done_by(site: Pipeline, name: str, topic: str | None = None) -> int:
    """How many offsets a replay has committed."""
    try:
        offsets = committed_offsets(
            site.broker.bootstrap_servers, topic or site.input_topic, f"{site.name}-replay-{name}"
        )
    except KafkaException:
        return 0  # the topic is not there yet
    return sum(max(0, offset) for offset in offsets.values())


def promote(site: Pipeline, *arguments: str, **settings: str) -> list[dict[str, Any]]:
    """What `promote` says, the verdict last."""
    own = {f"COVERSUMM_{name.upper()}": value for name, value in settings.items()}
    ended = run_command("promote", *arguments, environment={**site.environment, **own})
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines, ended.stderr
    assert ended.returncode == (0 if lines[-1]["ok"] else 1), (ended.stdout, ended.stderr)
    return lines


def published(site: Pipeline, topic: str) -> list[Message]:
    """What is in an output topic, by partition and offset, without what no two topics have in
    common.
    """
    found = read_topic(site.broker.bootstrap_servers, topic)
    return [message._replace(topic="", offset=0, timestamp_ms=0) for message in found]


def agreed(body: dict[str, Any]) -> dict[str, Any]:
    """What must be equal of two bodies that agree."""
    ours = ("epoch", "sequence", "previous_sequence", "cause")
    return {name: value for name, value in body.items() if name not in ours}


def as_final(body: dict[str, Any]) -> dict[str, Any]:
    """The change of a live worker as `--emit final` says it: against nothing published before.
    Facets are in order of name where they are said to have changed.
    """
    if "facets" in body:
        changed = sorted(facet["name"] for facet in body["facets"] if facet["sentences"])
        return {**body, "previous_sequence": None, "changed": changed}
    added = [sentence["sentence_id"] for sentence in body["sentences"]]
    return {**body, "previous_sequence": None, "added": added, "removed": []}


def bodies_in(path: Path) -> list[dict[str, Any]]:
    """What a replay wrote to a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def bodies_of(site: Pipeline, topic: str) -> list[dict[str, Any]]:
    """What was published to a topic, without tombstones, by partition and offset."""
    messages = read_topic(site.broker.bootstrap_servers, topic)
    return [json.loads(message.value) for message in messages if message.value is not None]


def last_bodies(bodies: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last one of each entity whose set is not empty, or one of whose facets is not."""
    last = {body["entity_id"]: body for body in bodies}
    return {
        entity: body
        for entity, body in last.items()
        if any(facet["sentences"] for facet in body.get("facets", [body]))
    }


def archived(message: Message) -> str:
    """A record as a line of an archive."""
    own = {name: getattr(message, name) for name in ("topic", "partition", "offset")}
    texts = {
        name: None if value is None else value.decode(errors="surrogateescape")
        for name, value in (("key", message.key), ("value", message.value))
    }
    return json.dumps({**own, "timestamp": message.timestamp_ms, **texts}) + "\n"
