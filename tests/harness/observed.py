"""A small site on which everything happens that the dashboard shows, watched by a real Prometheus.

Two workers under load with texts, embeddings, poison and deletions, one of them without native
code; the other is killed, loses its disk and restores; a producer keeps a transaction open; and a
replay and a bridge go on beside them.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.harness.broker import Kafka
from tests.harness.debezium import MAPPING, TOPIC, written
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, Mix, Sent, SteadyLoad, read_reviews, rounds
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent
from tests.harness.prometheus import Prometheus
from tests.harness.topics import producer
from tests.harness.workers import (
    COMMAND,
    ROOT,
    Pipeline,
    WorkerProcess,
    clean_environment,
    pipeline,
)

RULES: Final = ROOT / "deploy" / "chart" / "files" / "alerts.yml"
WORKERS: Final = "coversumm-worker"
REPLAY: Final = "coversumm-replay"
BRIDGE: Final = "coversumm-bridge"
EVENTS_PER_SECOND: Final = 120
REPLAYED_PER_SECOND: Final = 5
CHANGES_BEFORE: Final = 150
_TEXT_EVERY: Final = 8
# no common factor: every text comes to every worker, whichever of them keeps vectors
_TEXTS, _TEXT_ENTITIES = 60, 11
_OPEN_MS: Final = 900_000  # as long as a broker allows
_MIX: Final = Mix(delete_entity=0.02, poison=0.03)
_SETTINGS: Final = {
    "COVERSUMM_EMBEDDER": "onnx",
    "COVERSUMM_EMBEDDER_THREADS": "1",
    "COVERSUMM_CACHE_BYTES": "1MiB",  # entities are evicted
    "COVERSUMM_FACETS": "preset:stays",
}


class Site:
    """Workers, load, replay and Prometheus. Everything is started by `begin`, in steps that can be
    seen on the dashboard.
    """

    def __init__(
        self, workers: Pipeline, prometheus: Prometheus, bridge: WorkerProcess, replay_port: int
    ) -> None:
        self.prometheus = prometheus
        self._pipeline = workers
        self._bridge = bridge
        self._replay_port = replay_port
        self._ends = contextlib.ExitStack()

    def begin(self) -> None:
        """Workers, a bridge and load."""
        self._ends.callback(self._bridge.discard)
        self._bridge.start()
        for worker in self._pipeline.workers:
            worker.start()
        for worker in self._pipeline.workers:
            worker.wait_ready()
        load = SteadyLoad(self._servers, self._pipeline.input_topic, _events(), EVENTS_PER_SECOND)
        self._ends.callback(load.end)
        eventually(self._all_have_published, self._pipeline.logs)

    def _all_have_published(self) -> bool:
        """Whether every worker has rows that it would have to restore, and a replay has something
        to read.
        """
        return all(
            worker.metrics()["coversumm_summary_changes_total"] > CHANGES_BEFORE
            for worker in self._pipeline.workers
        )

    def lose_a_disk(self) -> None:
        """One worker is killed, and comes back with nothing."""
        worker = self._pipeline.workers[0]
        worker.kill()
        worker.wipe()
        worker.start().wait_ready()

    def open_a_transaction(self) -> None:
        """A producer writes to the input, and neither commits nor aborts."""
        config = {
            "transactional.id": f"{self._pipeline.name}-upstream",
            "transaction.timeout.ms": _OPEN_MS,
        }
        sender = producer(self._servers, **config)
        sender.init_transactions(PATIENCE_SECONDS)
        sender.begin_transaction()
        sender.produce(self._pipeline.input_topic, key=b"upstream", value=b"{}", partition=0)
        sender.flush(PATIENCE_SECONDS)
        self._ends.callback(sender.abort_transaction, PATIENCE_SECONDS)

    def replay(self) -> None:
        """A replay of what there is so far, slow enough to be seen."""
        directory = self._pipeline.directory / "replay"
        directory.mkdir()
        environment = {
            **self._pipeline.environment,
            "COVERSUMM_DATA_DIR": str(directory / "data"),
            "COVERSUMM_WEB_PORT": str(self._replay_port),
            # a complete micro-batch is read before the replay is throttled
            "COVERSUMM_BATCH_SIZE": "5",
        }
        command = [*COMMAND, "replay", "--to", "none"]
        command += ["--max-events-per-s", str(REPLAYED_PER_SECOND)]
        with (directory / "replay.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=clean_environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self._ends.callback(process.wait, PATIENCE_SECONDS)
        self._ends.callback(process.kill)

    def end(self) -> None:
        """No more load, no open transaction, no replay."""
        self._ends.close()

    @property
    def _servers(self) -> str:
        return self._pipeline.broker.bootstrap_servers


@contextlib.contextmanager
def observed(broker: Kafka, name: str, directory: Path) -> Iterator[Site]:
    """The site, of which nothing has begun but Prometheus; nothing of it outlives the block."""
    settings = {**_SETTINGS, "COVERSUMM_VECTOR_STORE_DIR": str(directory / "vectors")}
    with pipeline(broker, name, directory, settings=settings) as workers:
        ports = [workers.worker().web_port for _ in range(2)]
        # native code does not count the sentences that a refill searches
        workers.workers[1].environment["COVERSUMM_NATIVE"] = "off"
        replay_port = free_port()
        bridge = _bridge(workers)
        targets = {WORKERS: ports, REPLAY: [replay_port], BRIDGE: [bridge.web_port]}
        with Prometheus(directory / "prometheus", targets, RULES) as prometheus:
            site = Site(workers, prometheus, bridge, replay_port)
            try:
                yield site
            finally:
                site.end()


def _bridge(workers: Pipeline) -> WorkerProcess:
    """A bridge of a topic of its own, not started."""
    source, directory = f"{workers.name}.shop", workers.directory / "bridge"
    workers.broker.create_topic(source, 1)
    directory.mkdir()
    file = written(directory, MAPPING.replace(TOPIC, source))
    arguments = ("bridge", "--mapping", str(file), "--from", source)
    return WorkerProcess(directory, workers.environment, arguments=arguments)


def _events() -> Iterator[Sent]:
    """Events with embeddings, and every few of them one whose text the worker has to split, embed
    (one of five), or find embedded before. Such a text ends with half of an emoji.
    """
    reviews = read_reviews(limit=400)
    texts = cycle(review.text[:200] for review in reviews[:_TEXTS])
    for number, sent in enumerate(rounds(reviews, HashedVectors(384), mix=_MIX)):
        yield sent
        if number % _TEXT_EVERY == 0:
            body = {
                "type": "review.upserted",
                "entity_id": f"texts {number // _TEXT_EVERY % _TEXT_ENTITIES}",
                "review_id": str(number),
                "text": next(texts) + f" {number}." * (number // _TEXT_EVERY % 5 == 0) + " \ud83d",
            }
            yield Sent(body["entity_id"].encode(), json.dumps(body).encode())
