"""What `replay` shows: its progress, its report, and an estimate."""

import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from worker.kafka.errors import patiently
from worker.parts import Parts
from worker.replay.estimate import Estimate
from worker.replay.file import bodies_of
from worker.replay.process import read_to_end
from worker.replay.report import ProgressLines, lacking_facts, report_of
from worker.replay.run import Replay
from worker.settings import Settings
from worker.storage.vectors import open_vector_store
from worker.stream.surroundings import die
from worker.view import output
from worker.view.tables import show_facts
from worker.view.texts import folded
from worker.view.writing import sink

TERMINAL_SECONDS = 0.5  # seconds between two progress reports at a terminal
log = logging.getLogger(__name__)


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
        return ", ".join(f"{name} {_as_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def estimate(replay: Replay, as_json: bool) -> int:
    """Write how long a replay will take; returns the exit code."""
    parts = Parts.of(replay.settings)
    found = replay.estimate(parts, open_vector_store(replay.settings, parts.engine))
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


def run_replay(replay: Replay, as_json: bool) -> int:
    """Take part in a replay until it ends; returns the exit code."""
    from worker.app import BoundedRun, run_worker

    started = time.monotonic()
    end = partial(die, advised=replay.names.advised)
    run = BoundedRun(replay.bounds, replay.names.specs, end)

    def work(settings: Settings) -> int:
        with reporting(replay, as_json):
            return run_worker(settings, run)

    if code := read_to_end(replay, work, output.note):
        return code
    if (file := replay.names.request.to_file) is not None:
        with sink(str(file)) as destination:
            for body in bodies_of(replay):
                destination.write(body + b"\n")
    facts = patiently(lambda: report_of(replay, time.monotonic() - started))
    write_facts("report", replay.names.request.name, facts, as_json)
    return 0
