"""One process's part of a replay, from its start to its report."""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

from worker.cli import output
from worker.cli.tables import show_facts
from worker.errors import Crash, SetupError
from worker.settings import COMPUTED, Settings, origins

if TYPE_CHECKING:
    from worker.replay.filled_archive import Holes
    from worker.replay.request import ReplayIdentity
    from worker.replay.run import Replay, ReplayProgress
    from worker.stream.run_bounds import RateThrottle
    from worker.text.engine import EmbeddingEngine


TERMINAL_SECONDS, FIRST_SECONDS, LINE_SECONDS = 0.5, 1.0, 10.0
"""Between two looks at how far it is: at a terminal, and elsewhere at first and later."""
PORTS, MAX_PORT = 100, 65_535
"""Ports that are tried for the worker that goes on, and the highest port there is."""
log = logging.getLogger(__name__)


@contextmanager
def telling(replay: "Replay", as_json: bool) -> Iterator[None]:
    """Tell how far it is, in a thread of its own, until the block ends."""
    over = threading.Event()
    teller = threading.Thread(
        target=_tell, args=[replay, as_json, over], name="progress", daemon=True
    )
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join(5.0)


def _tell(replay: "Replay", as_json: bool, over: threading.Event) -> None:
    while replay.plan is None:
        if over.wait(0.1):
            return
    is_terminal = output.is_terminal(sys.stderr)
    estimate: _Estimate | None = None
    with output.file_progress(replay.plan.size, "events") as progress:
        while True:
            try:
                standing = replay.progress()
            except Exception as cause:  # brokers may be away: then nothing is known
                log.debug("how far it is is not known: %r", cause)
            else:
                estimate = estimate or _Estimate(time.monotonic(), standing.done)
                progress.update(standing.done, standing.account.read)
                if as_json:
                    output.print_json(estimate.line(time.monotonic(), standing))
                    output.flush()
            if over.wait(TERMINAL_SECONDS if is_terminal or estimate is None else estimate.pause()):
                return


class _Estimate:
    """The lines that programs read.

    What is left is foretold by the rate of the later half of the time since the first progress: how
    long a process takes to start and to restore says nothing about it, and its first micro-batches
    are small ones.

    Args:
        now: `time.monotonic` at the first look.
        done: the offsets that were done by then.
    """

    def __init__(self, now: float, done: int) -> None:
        self._begun = self._looked = now
        self._from = done
        self._moves_since: float | None = None
        self._looks: deque[tuple[float, int]] = deque()  # of the later half

    def line(self, now: float, standing: "ReplayProgress") -> dict[str, Any]:
        """What is told now."""
        self._looked = now
        rate = self._rate(now, standing.done)
        return {
            "type": "progress",
            "offsets": standing.done,
            "of": standing.size,
            "read": standing.account.read,
            "changes": standing.account.changes,
            "seconds": round(now - self._begun, 1),
            "offsets_per_s": round(rate, 1),
            "seconds_left": round((standing.size - standing.done) / rate, 1) if rate else None,
        }

    def _rate(self, now: float, done: int) -> float:
        """Offsets a second; 0.0 while nothing is known."""
        if done > self._from and self._moves_since is None:
            self._moves_since = now
        if self._moves_since is None:
            return 0.0
        self._looks.append((now, done))
        while len(self._looks) > 2 and self._looks[1][0] <= (self._moves_since + now) / 2:
            self._looks.popleft()
        since, before = self._looks[0]
        return (done - before) / (now - since) if now > since else 0.0

    def pause(self) -> float:
        """Seconds until the next look: the first ones come soon."""
        return min(LINE_SECONDS, FIRST_SECONDS + (self._looked - self._begun) / 10)


def facts_of(replay: "Replay", seconds: float) -> dict[str, Any]:
    """What it came to, all processes together; `seconds` are this one's."""
    names, plan, account = replay.names, replay.plan, replay.progress().account
    assert plan is not None
    request = names.request
    facts: dict[str, Any] = {
        "begun": plan.begun,
        "read": account.read,
        "applied": account.applied,
        "ignored": account.ignored,
        "dead_letters": account.dead_letters,
        "entities": account.entities,
        "changes": account.changes,
        "published": account.published,
        "seconds": round(seconds, 1),
    }
    if request.by == "occurred_at" and request.until_ms is not None:
        facts["arrived_late"] = account.late
    if account.dead_letters:
        facts["dead_letters_in"] = names.settings.dlq_topic
    gone = {str(p): one.log_start for p, one in plan.by_partition.items() if one.log_start}
    if gone and request.since_ms is None:
        facts["gone_before"] = gone
    if request.to_file is not None:
        facts["written_to"] = str(request.to_file)
    elif request.to_topic is not None:
        facts["published_to"] = request.to_topic
    facts |= holes_facts(plan.holes)
    if plan.whole:
        facts["go_on_with"] = _going_on(names)
    return facts


def holes_facts(holes: "Holes") -> dict[str, Any]:
    """What the files lack; nothing where they lack nothing."""
    facts: dict[str, Any] = {}
    if holes.unreadable:
        facts |= {"unreadable_rows": holes.unreadable, "first_unreadable": holes.first_unreadable}
    if holes.missing:
        facts["missing_offsets"] = {
            partition: one.offsets for partition, one in holes.missing.items()
        }
        facts["missing_ranges"] = {partition: one.first for partition, one in holes.missing.items()}
    return facts


def show(name: str, facts: Mapping[str, Any]) -> None:
    """For people, one below the other."""
    show_facts(
        [
            ("replay", name),
            *((fact.replace("_", " "), _shown(value)) for fact, value in facts.items()),
        ]
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _going_on(names: "ReplayIdentity") -> str:
    """The command that goes on from the replay's state and offsets, beside the live worker.

    Its settings are the replay's where the state depends on them, else those that the live worker
    would have; what is computed from other settings is left out. Secrets are in the environment
    alone.
    """
    origin, live = origins(), names.live
    own: dict[str, Any] = {
        name: getattr(live, name) if origin[name] != COMPUTED else ""
        for name in ("dlq_topic", "instance_id", "web_advertised_url")
    }
    if origin["web_port"] == "default":
        own["web_port"] = _port_beside(live)
    given = replace(names.settings, **own).environment()
    words = [f"{variable}={quote(value)}" for variable, value in given.items()]
    return " ".join([*words, "coversumm-worker run"])


def _port_beside(live: Settings) -> int:
    """The first free port behind that of the live worker, which may run on this machine."""
    from worker.web import check_port

    for port in range(live.web_port + 1, min(live.web_port + PORTS, MAX_PORT) + 1):
        with suppress(SetupError):
            check_port(live.web_bind, port)
            return port
    return live.web_port


BATCH_EVENTS = 3500
"""Of a micro-batch that nobody waits for. Measured: 5000 take a tenth more memory than a live
worker, 2500 a tenth more time.
"""
NICENESS = 10
"""Of a replay that is to be gentle: on a machine without a processor to spare a live worker gets
ten times as much of one.
"""


def estimate(replay: "Replay", as_json: bool) -> int:
    """Tell what a replay will take; the exit code."""
    from worker.storage.vectors import open_vector_store

    engine = _engine(replay.settings)
    found = replay.estimate(engine, open_vector_store(replay.settings, engine))
    facts = found._asdict() | {"seconds": round(found.seconds, 1)} | holes_facts(replay.holes)
    if as_json:
        output.print_json({"type": "estimate", **facts})
    else:
        show(replay.names.request.name, facts)
    return 0


class ReplayProcess:
    """This process's part, no faster than the throttle, which is the replay's, allows."""

    def __init__(self, replay: "Replay", throttle: "RateThrottle", *, as_json: bool) -> None:
        self._replay = replay
        self._throttle = throttle
        self._as_json = as_json
        self._started = time.monotonic()

    def replay(self) -> int:
        """Take part until it is over; the exit code."""
        from worker.kafka.errors import patiently

        replay = self._replay
        if patiently(replay.found) is not None and not patiently(replay.open_partitions):
            engine = _engine(replay.settings)
            patiently(lambda: replay.check_plan(engine))
        elif code := self._work():
            return code
        self._write_file()
        facts = patiently(lambda: facts_of(replay, time.monotonic() - self._started))
        if self._as_json:
            output.print_json({"type": "report", **facts})
        else:
            show(replay.names.request.name, facts)
        return 0

    def _work(self) -> int:
        from worker.app import BoundedRun, run_worker
        from worker.kafka.errors import patiently
        from worker.stream.surroundings import die

        replay = self._replay
        patiently(replay.prepare)
        if self._throttle.is_on:
            os.nice(NICENESS)
        end = partial(die, advised=replay.names.advised)
        with telling(replay, self._as_json):
            code = run_worker(self._settings(), BoundedRun(replay.bounds, replay.names.specs, end))
        if code == 0 and patiently(replay.open_partitions):
            output.note("stopped before the end: the same command goes on")
            return Crash.exit_code
        return code

    def _settings(self) -> Settings:
        """The live worker's, but for what nobody set.

        A port of its own, for a replay beside a live worker is not to be refused for that one's.
        Large micro-batches, for nobody waits for one event; where it is to be gentle small ones
        instead, and the last turn at the processors.
        """
        from worker.web import free_port

        settings, origin = self._replay.settings, origins()
        own: dict[str, Any] = {}
        if origin["web_port"] == "default":
            port = free_port(settings.web_bind)
            own |= {"web_port": port, "web_advertised_url": f"http://{settings.web_bind}:{port}"}
        if origin["batch_size"] == "default":
            own |= {"batch_size": min(BATCH_EVENTS, self._throttle.events_at_once or BATCH_EVENTS)}
        if origin["batch_bytes"] == "default" and self._throttle.bytes_at_once:
            own |= {"batch_bytes": min(settings.batch_bytes, self._throttle.bytes_at_once)}
        return replace(settings, **own)

    def _write_file(self) -> None:
        path = self._replay.names.request.to_file
        if path is None:
            return
        from worker.cli.writing import sink
        from worker.kafka.clients import KafkaClients
        from worker.replay.run import in_order_of_commits, in_order_of_entities

        settings, request = self._replay.settings, self._replay.names.request
        in_order = in_order_of_entities if request.emit == "final" else in_order_of_commits
        with sink(str(path)) as destination:
            for body in in_order(KafkaClients(settings), settings.output_topic):
                destination.write(body + b"\n")


def _engine(settings: Settings) -> "EmbeddingEngine | None":
    from worker.text.embedders import load_engine

    return load_engine(
        settings.embedder, threads=settings.embedder_threads, cache_dir=settings.model_cache_dir
    )
