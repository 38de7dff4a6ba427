"""Who is compared, and how each is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.kafka_streams.application import compiled
from tests.bench.peers import faust_app, launch
from tests.bench.worker.measure import settings
from tests.harness.broker import Kafka
from tests.harness.workers import Pipeline, pipeline

SOURCE = Path(__file__).with_name("EntityReviews.java")
PARTITIONS = 4
THREADS = 2
"""Of Kafka Streams: one for each core. The worker and Faust are one process each."""


class Contender(NamedTuple):
    """`launcher` as of `Pipeline`. `environment` takes the classpath. `events` at most by
    sentences, where it is slow.
    """

    name: str
    title: str
    launcher: str | None
    environment: Callable[[str], Mapping[str, str]]
    events: Mapping[int, int] = {}

    @contextmanager
    def open(self, kafka: Kafka, name: str, folder: Path, classpath: str) -> Iterator[Pipeline]:
        """Its pipeline, with topics and nothing started."""
        given = {**settings(), **self.environment(classpath)}
        options = {"partitions": PARTITIONS, "settings": given, "launcher": self.launcher}
        with pipeline(kafka, name, folder, **options) as site:
            if self.launcher is not None:
                kafka.create_topic(site.output_topic, PARTITIONS)
            yield site


def _streams(mode: str) -> Callable[[str], Mapping[str, str]]:
    return lambda classpath: {
        launch.CLASSPATH: classpath,
        "PEER_MODE": mode,
        "STREAMS_CONFIG": f"num.stream.threads={THREADS}\n",
    }


OURS = Contender("worker", "the worker", None, lambda _: {})
TRIVIAL = Contender("trivial", "Kafka Streams, reviews kept", launch.__name__, _streams("trivial"))
BRUTE = Contender(
    "brute",
    "Kafka Streams, brute force",
    launch.__name__,
    _streams("brute"),
    {10: 20_000, 100: 10_000, 1000: 2000, 10_000: 200},
)
FAUST = Contender(
    "faust",
    "Faust, reviews kept, loses events",
    faust_app.__name__,
    lambda _: {"PEER_PARTITIONS": str(PARTITIONS)},
    dict.fromkeys((10, 100, 1000, 10_000), 10_000),
)
CONTENDERS = {one.name: one for one in (OURS, TRIVIAL, BRUTE, FAUST)}


def classes(folder: Path) -> str:
    """The classpath of what is compiled into `folder`."""
    return compiled(folder, SOURCE)
