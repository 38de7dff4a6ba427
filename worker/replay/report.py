"""What a replay reports: its progress with the remaining time, and what it did in the end."""

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from shlex import quote
from typing import Any

from worker.errors import SetupError
from worker.replay.archive_check import Holes
from worker.replay.ranges import gone_before
from worker.replay.request import ReplayIdentity, Request
from worker.replay.run import Replay, not_whole
from worker.settings import COMPUTED, Settings, origins

FIRST_SECONDS, LINE_SECONDS = 1.0, 10.0  # seconds between two lines: at first, and later
PORTS, MAX_PORT = 100, 65_535
"""Number of ports that are tried for the worker that continues, and the highest port."""


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
    """The gaps of the history: its beginning, rows and offsets of files. `lacking` is the part of
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
            partition: gap.offsets for partition, gap in holes.missing.items()
        }
        facts["missing_ranges"] = {partition: gap.first for partition, gap in holes.missing.items()}
    return facts


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
