"""A process of a replay: a worker with the replay's settings, until every partition is over."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from worker.errors import INTERRUPTED, Crash
from worker.kafka.errors import patiently
from worker.parts import Parts
from worker.replay.run import Replay
from worker.settings import Settings, origins
from worker.stream.run_bounds import RateThrottle

BATCH_EVENTS = 3500
"""Of a micro-batch. Measured: 5000 take a tenth more memory, 2500 a tenth more time."""
NICENESS = 10  # of a throttled replay: on a busy machine a live worker gets ten times its CPU time


def read_to_end(
    replay: Replay, work: Callable[[Settings], int], note: Callable[[str], None]
) -> int:
    """Take part in a replay until it ends; returns the exit code.

    `work` runs a worker within the replay's bounds and returns its exit code, `note` tells people.
    """
    if patiently(replay.found) is not None and not patiently(replay.open_partitions):
        parts = Parts.of(replay.settings)
        patiently(lambda: replay.check_plan(parts))
        return 0
    patiently(replay.prepare)
    if replay.throttle.is_on:
        os.nice(NICENESS)
    code = work(worker_settings(replay.settings, replay.throttle))
    is_cut = code == 0 and bool(patiently(replay.open_partitions))
    if is_cut or code == INTERRUPTED:
        note("stopped before the end: run the same command to continue")
    return Crash.exit_code if is_cut else code


def worker_settings(settings: Settings, throttle: RateThrottle) -> Settings:
    """The replay's settings, with other defaults than a live worker's.

    A free port, since the live worker may have the other one. Large micro-batches, since nobody
    waits for an event; small ones with a throttle.
    """
    from worker.web.server import free_port  # loads aiohttp

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
