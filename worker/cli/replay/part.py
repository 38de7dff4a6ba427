"""One process's part of a replay, from its start to its report."""

import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from worker.cli import output
from worker.cli.replay.telling import facts_of, holes_facts, show, telling
from worker.errors import Crash
from worker.settings import Settings, origins

if TYPE_CHECKING:
    from worker.replay.run import Replay
    from worker.replay.throttle import RateThrottle
    from worker.text.engine import EmbeddingEngine

BATCH_EVENTS = 3500
"""Of a micro-batch that nobody waits for. Measured: 5000 take a tenth more memory than a live worker, 2500 a tenth more time."""
NICENESS = 10
"""Of a replay that is to be gentle: on a machine without a processor to spare a live worker gets ten times as much of one."""


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


class Part:
    """This process's part, no faster than the throttle, which is the replay's, allows."""

    def __init__(self, replay: "Replay", throttle: "RateThrottle", *, as_json: bool) -> None:
        self._replay = replay
        self._throttle = throttle
        self._as_json = as_json
        self._started = time.monotonic()

    def replay(self) -> int:
        """Take part until it is over; the exit code."""
        replay = self._replay
        if replay.found() is not None and not replay.open_partitions():
            replay.check_plan(_engine(replay.settings))
        elif code := self._work():
            return code
        self._write_file()
        facts = facts_of(replay, time.monotonic() - self._started)
        if self._as_json:
            output.print_json({"type": "report", **facts})
        else:
            show(replay.names.request.name, facts)
        return 0

    def _work(self) -> int:
        from worker.app import Errand, run_worker
        from worker.stream.fatal import die

        replay = self._replay
        replay.prepare()
        if self._throttle.is_on:
            os.nice(NICENESS)
        end = partial(die, told=replay.names.advised)
        with telling(replay, self._as_json):
            code = run_worker(self._settings(), Errand(replay.course, replay.names.specs, end))
        if code == 0 and self._replay.open_partitions():
            output.note("stopped before the end: the same command goes on")
            return Crash.exit_code
        return code

    def _settings(self) -> Settings:
        """The live worker's, but for what nobody set.

        A port of its own, for a replay beside a live worker is not to be refused for that one's. Large micro-batches, for nobody
        waits for one event; where it is to be gentle small ones instead, and the last turn at the processors.
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
        from worker.replay.bodies import in_order_of_commits, in_order_of_entities

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
