"""A process of a replay, from its start to its report."""

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
from typing import Any

from worker.cli.replay_file import write_file
from worker.errors import INTERRUPTED, Crash, SetupError
from worker.kafka.errors import patiently
from worker.processing.config import configured_engine
from worker.replay.archive_check import Holes
from worker.replay.estimate import Estimate
from worker.replay.ranges import gone_before
from worker.replay.request import ReplayIdentity, Request
from worker.replay.run import Replay, not_whole
from worker.settings import COMPUTED, Settings, origins
from worker.storage.vectors import open_vector_store
from worker.stream.run_bounds import RateThrottle
from worker.view import output
from worker.view.tables import show_facts
from worker.view.texts import folded

FIRST_SECONDS, LINE_SECONDS = 1.0, 10.0  # seconds between two lines: at first, and later
TERMINAL_SECONDS = 0.5  # seconds between two progress reports at a terminal
PORTS, MAX_PORT = 100, 65_535
"""Number of ports that are tried for the worker that continues, and the highest port."""
log = logging.getLogger(__name__)


class ProgressLines:
    """Lines with the remaining time.

    It follows from the rate of the later half of the time since the first progress: without the
    start and the restore, and without the first, small micro-batches.
    """

    def __init__(self, now: float, done: int) -> None:
        """`done`: units that are done at `now`, in seconds of `time.monotonic`."""
        self._start = self._last = now
        self._done_at_start = done
        self._first_progress: float | None = None
        self._points: deque[tuple[float, int]] = deque()  # of the later half

    def line(
        self, now: float, unit: str, done: int, size: int, counts: Mapping[str, int]
    ) -> dict[str, Any]:
        """The line for now: `done` of `size` units, and other counts."""
        self._last = now
        rate = self._rate(now, done)
        return {
            "type": "progress",
            unit: done,
            "of": size,
            **counts,
            "seconds": round(now - self._start, 1),
            f"{unit}_per_s": round(rate, 1),
            "seconds_left": round((size - done) / rate, 1) if rate else None,
        }

    def _rate(self, now: float, done: int) -> float:
        """Units a second; 0.0 while it is unknown."""
        if done > self._done_at_start and self._first_progress is None:
            self._first_progress = now
        if self._first_progress is None:
            return 0.0
        self._points.append((now, done))
        while len(self._points) > 2 and self._points[1][0] <= (self._first_progress + now) / 2:
            self._points.popleft()
        since, before = self._points[0]
        return (done - before) / (now - since) if now > since else 0.0

    def pause(self) -> float:
        """Seconds until the next line: the first ones come soon."""
        return min(LINE_SECONDS, FIRST_SECONDS + (self._last - self._start) / 10)


@contextmanager
def reporting(replay: Replay, as_json: bool) -> Iterator[None]:
    """Report progress in a thread until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_report, args=[replay, as_json, stop], name="progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5.0)


def _report(replay: Replay, as_json: bool, stop: threading.Event) -> None:
    while replay.plan is None:
        if stop.wait(0.1):
            return
    is_terminal = output.is_terminal(sys.stderr)
    lines: ProgressLines | None = None
    with output.file_progress(replay.plan.size, "events") as shown:
        while True:
            try:
                progress = replay.progress()
            except Exception as cause:  # no broker answers
                log.debug("the progress is unknown: %r", cause)
            else:
                lines = lines or ProgressLines(time.monotonic(), progress.done)
                shown.update(progress.done, progress.account.read)
                if as_json:
                    counts = {"read": progress.account.read, "changes": progress.account.changes}
                    output.print_json(
                        lines.line(
                            time.monotonic(), "offsets", progress.done, progress.size, counts
                        )
                    )
                    output.flush()
            if stop.wait(TERMINAL_SECONDS if is_terminal or lines is None else lines.pause()):
                return


def report_of(replay: Replay, seconds: float) -> dict[str, Any]:
    """The report on all processes together; `seconds` are this one's."""
    names, plan, account = replay.names, replay.plan, replay.progress().account
    assert plan is not None
    request = names.request
    counts = ("read", "applied", "ignored", "dead_letters", "entities", "changes", "published")
    facts: dict[str, Any] = {"begun": plan.begun}
    facts |= {name: getattr(account, name) for name in counts} | {"seconds": round(seconds, 1)}
    if request.by == "occurred_at" and request.until_ms is not None:
        facts["arrived_late"] = account.late
    if account.dead_letters:
        facts["dead_letters_in"] = names.settings.dlq_topic
    if request.to_file is not None:
        facts["written_to"] = str(request.to_file)
    elif request.to_topic is not None:
        facts["published_to"] = request.to_topic
        if names.live.facets:
            facts["facets_published_to"] = names.facets_topic
    facts |= lacking_facts(plan.holes, gone_before(plan.by_partition), plan.gone, request)
    if plan.whole:
        facts["go_on_with"] = run_command(names)
    return facts


def lacking_facts(
    holes: Holes, gone: Mapping[str, int], lacking: Mapping[str, int], request: Request
) -> dict[str, Any]:
    """What the history lacks: its beginning, rows and offsets of files. `lacking` is the part of
    `gone` that makes the replay partial.
    """
    facts: dict[str, Any] = {}
    if gone and request.since_ms is None:
        facts["gone_before"] = gone
    if lacking:
        facts["not_whole"] = not_whole(lacking)
    if holes.unreadable:
        facts |= {"unreadable_rows": holes.unreadable, "first_unreadable": holes.first_unreadable}
    if holes.missing:
        facts["missing_offsets"] = {
            partition: one.offsets for partition, one in holes.missing.items()
        }
        facts["missing_ranges"] = {partition: one.first for partition, one in holes.missing.items()}
    return facts


def write_facts(kind: str, name: str, facts: Mapping[str, Any], as_json: bool) -> None:
    """Write facts as JSON, or one below the other."""
    if as_json:
        output.print_json({"type": kind, **facts})
        return
    shown = {**facts}
    command = shown.pop("go_on_with", None)
    lines = [(fact.replace("_", " "), _as_text(value)) for fact, value in shown.items()]
    show_facts([("replay", name), *lines])
    if command is not None:
        console = output.console()
        print("\nA worker that continues from here:")
        print(*folded(f"  {command}", console.width), sep="\n")


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_as_text(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def run_command(names: ReplayIdentity) -> str:
    """The command of a worker that continues from the replay, beside the live worker.

    It sets what the state depends on as the replay has it, other settings as the live worker has
    them, and leaves out computed ones and secrets.
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
    """The first free port above that of the live worker, which may run on this machine."""
    from worker.web.server import check_port  # loads aiohttp

    for port in range(live.web_port + 1, min(live.web_port + PORTS, MAX_PORT) + 1):
        with suppress(SetupError):
            check_port(live.web_bind, port)
            return port
    return live.web_port


BATCH_EVENTS = 3500
"""Of a micro-batch. Measured: 5000 take a tenth more memory, 2500 a tenth more time."""
NICENESS = 10  # of a throttled replay: on a busy machine a live worker gets ten times its CPU time


def estimate(replay: Replay, as_json: bool) -> int:
    """Write how long a replay will take; returns the exit code."""
    engine = configured_engine(replay.settings)
    found = replay.estimate(engine, open_vector_store(replay.settings, engine))
    rounded = {name: round(getattr(found, name), 1) for name in ("seconds", "seconds_at_most")}
    request, gone = replay.names.request, replay.gone
    lacking = lacking_facts(replay.holes, gone, request.lacking(gone), request)
    facts = found._asdict() | rounded | lacking if as_json else estimate_lines(found) | lacking
    write_facts("estimate", request.name, facts, as_json)
    return 0


def estimate_lines(found: Estimate) -> dict[str, str]:
    """An estimate for people, with units."""
    return {
        "offsets": f"{found.records:,} to read, {mebibytes(found.size)}",
        "time": f"{duration(found.seconds)} to {duration(found.seconds_at_most)}, the longer one "
        "if brokers or other workers use the same processors",
        "disk": f"{mebibytes(found.disk_bytes)}, and as much in the changelog",
        "sample": f"{output.many(found.sampled, 'records')} of "
        f"{output.many(found.sampled_entities, 'entities')}; "
        f"{output.many(found.sampled_embedded, 'texts')} embedded, "
        f"{output.many(found.sampled_known, 'vectors')} known",
    }


def mebibytes(count: int) -> str:
    """A number of bytes in MiB."""
    return f"{count / 2**20:,.1f} MiB"


def duration(seconds: float) -> str:
    """Seconds in the units that people use.

    >>> duration(8.2), duration(133.3), duration(7500)
    ('8 s', '2 min 13 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def run_replay(replay: Replay, throttle: RateThrottle, as_json: bool) -> int:
    """Take part in a replay until it ends; returns the exit code. `throttle` is the replay's."""
    started = time.monotonic()
    if patiently(replay.found) is not None and not patiently(replay.open_partitions):
        engine = configured_engine(replay.settings)
        patiently(lambda: replay.check_plan(engine))
    elif code := _process(replay, throttle, as_json):
        return code
    write_file(replay)
    facts = patiently(lambda: report_of(replay, time.monotonic() - started))
    write_facts("report", replay.names.request.name, facts, as_json)
    return 0


def _process(replay: Replay, throttle: RateThrottle, as_json: bool) -> int:
    from worker.app import BoundedRun, run_worker
    from worker.stream.surroundings import die

    patiently(replay.prepare)
    if throttle.is_on:
        os.nice(NICENESS)
    end = partial(die, advised=replay.names.advised)
    with reporting(replay, as_json):
        run = BoundedRun(replay.bounds, replay.names.specs, end)
        code = run_worker(_worker_settings(replay.settings, throttle), run)
    is_cut = code == 0 and bool(patiently(replay.open_partitions))
    if is_cut or code == INTERRUPTED:
        output.note("stopped before the end: run the same command to continue")
    return Crash.exit_code if is_cut else code


def _worker_settings(settings: Settings, throttle: RateThrottle) -> Settings:
    """The replay's settings, with other defaults than a live worker's.

    A free port, since the live worker may have the other one. Large micro-batches, since nobody
    waits for an event; small ones with a throttle.
    """
    from worker.web.server import free_port

    origin = origins()
    own: dict[str, Any] = {}
    if origin["web_port"] == "default":
        port = free_port(settings.web_bind)
        own |= {
            "web_port": port,
            "web_advertised_url": settings.url_of(settings.web_bind, port),
        }
    if origin["batch_size"] == "default":
        own |= {"batch_size": min(BATCH_EVENTS, throttle.events_at_once or BATCH_EVENTS)}
    if origin["batch_bytes"] == "default" and throttle.bytes_at_once:
        own |= {"batch_bytes": min(settings.batch_bytes, throttle.bytes_at_once)}
    return replace(settings, **own)
