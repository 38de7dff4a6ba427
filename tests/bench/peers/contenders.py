"""Who is compared, and how each is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import faust_app, launch
from tests.bench.peers.application import compiled
from tests.bench.worker.measure import settings
from tests.harness.broker import Kafka
from tests.harness.workers import Pipeline, pipeline

SOURCE = Path(__file__).with_name("EntityReviews.java")
PARTITIONS = 4
THREADS = 2
"""Of Kafka Streams: one for each core. All others are one process each, with the threads that come
with it.
"""


class Contender(NamedTuple):
    """One that is compared.

    Attributes:
        name: in the record.
        title: in the table.
        guarantee: what its documentation promises, as the application is set up.
        interval: between its commits or snapshots.
        memory: what bounds the memory of its state.
        launcher: as of `Pipeline`.
        environment: variables of its processes, by the classpath.
        events: at most, by sentences, where it is slow.
        entities: at most. Those at 10,000 keep all state in memory, or are slow.
        python: its environment where it has one of its own (`launch.ENVIRONMENTS`).
        keeps: whether it publishes an event for each review that it keeps, and nothing else.
    """

    name: str
    title: str
    guarantee: str
    interval: str
    memory: str
    launcher: str | None
    environment: Callable[[str], Mapping[str, str]]
    events: Mapping[int, int] = {}
    python: str | None = None
    keeps: bool = False
    entities: int = 10_000

    @property
    def missing(self) -> bool:
        """Whether its environment was not installed."""
        return self.python is not None and not launch.is_installed(self.python)

    @contextmanager
    def open(self, kafka: Kafka, name: str, folder: Path, classpath: str) -> Iterator[Pipeline]:
        """Its pipeline, with topics and nothing started; the broker stamps what is published."""
        given = {**settings(), **self.environment(classpath)}
        options = {"partitions": PARTITIONS, "settings": given, "launcher": self.launcher}
        with pipeline(kafka, name, folder, **options) as site:
            stamped = {"message.timestamp.type": "LogAppendTime"}
            kafka.create_topic(site.output_topic, PARTITIONS, stamped)
            yield site


def _streams(mode: str) -> Callable[[str], Mapping[str, str]]:
    return lambda classpath: {
        launch.CLASSPATH: classpath,
        launch.MAIN: "EntityReviews",
        "PEER_MODE": mode,
        "STREAMS_CONFIG": f"num.stream.threads={THREADS}\n",
    }


def _python(name: str, mode: str, seconds: int = 1) -> Callable[[str], Mapping[str, str]]:
    return lambda _: {
        "PEER_SECONDS": str(seconds),
        "PEER_CACHE_MIB": str(CACHE_MIB),
        launch.PYTHON: str(launch.interpreter(name)),
        launch.APP: f"{__package__}.{name}_app",
        "PEER_MODE": mode,
    }


CACHE_MIB = 256
"""Of entities in memory, in the worker by default, in Quix Streams with brute force by its code."""
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"
STREAMS_MEMORY = "heap 1 GiB; RocksDB: its defaults, about 100 MiB a store and partition"
QUIX_MEMORY = "RocksDB: its defaults, blocks 1 GiB"
IN_MEMORY = "none: all state is in memory"
OURS = Contender(
    "worker",
    "the worker",
    EXACTLY_ONCE,
    "each micro-batch, from 50 ms",
    f"entities {CACHE_MIB} MiB; RocksDB 256 MiB",
    None,
    lambda _: {},
    entities=200_000,
)
PYTHON = OURS._replace(
    name="worker_python",
    title="the worker without native code",
    environment=lambda _: {"COVERSUMM_NATIVE": "off"},
    entities=10_000,
)
TRIVIAL = Contender(
    "trivial",
    "Kafka Streams, reviews kept",
    EXACTLY_ONCE,
    "100 ms",
    STREAMS_MEMORY,
    launch.__name__,
    _streams("trivial"),
    keeps=True,
)
BRUTE = Contender(
    "brute",
    "Kafka Streams, brute force",
    EXACTLY_ONCE,
    "100 ms",
    STREAMS_MEMORY,
    launch.__name__,
    _streams("brute"),
    {10: 10_000, 20: 10_000, 100: 5000, 1000: 1000, 10_000: 100},
)
FAUST = Contender(
    "faust",
    "Faust, reviews kept",
    "none: loses or repeats",
    "2.8 s",
    "RocksDB: its defaults, blocks 2 GiB",
    faust_app.__name__,
    lambda _: {"PEER_PARTITIONS": str(PARTITIONS)},
    dict.fromkeys((10, 20, 100, 1000, 10_000), 10_000),
    keeps=True,
)
QUIX = Contender(
    "quix",
    "Quix Streams, reviews kept",
    EXACTLY_ONCE,
    "1 s",
    QUIX_MEMORY,
    launch.__name__,
    _python("quix", "keep"),
    python="quix",
    keeps=True,
    entities=200_000,
)
QUIX_BRUTE = Contender(
    "quix_brute",
    "Quix Streams, brute force",
    EXACTLY_ONCE,
    "1 s",
    f"entities {CACHE_MIB} MiB; {QUIX_MEMORY}",
    launch.__name__,
    _python("quix", "brute"),
    {10_000: 2000},
    "quix",
    entities=200_000,
)
BYTEWAX = Contender(
    "bytewax",
    "Bytewax, reviews kept",
    AT_LEAST_ONCE,
    "1 s",
    IN_MEMORY,
    launch.__name__,
    _python("bytewax", "keep"),
    python="bytewax",
    keeps=True,
)
BYTEWAX_BRUTE = Contender(
    "bytewax_brute",
    "Bytewax, brute force",
    AT_LEAST_ONCE,
    "1 s",
    IN_MEMORY,
    launch.__name__,
    _python("bytewax", "brute"),
    {10_000: 2000},
    "bytewax",
)
BYTEWAX_DEFAULTS = Contender(
    "bytewax_defaults",
    "Bytewax, brute force, its defaults",
    AT_LEAST_ONCE,
    "10 s",
    IN_MEMORY,
    launch.__name__,
    _python("bytewax", "brute", 10),
    {10_000: 2000},
    "bytewax",
)
PATHWAY = Contender(
    "pathway",
    "Pathway, reviews kept",
    f"{AT_LEAST_ONCE} (free version)",
    "1 s",
    IN_MEMORY,
    launch.__name__,
    _python("pathway", "keep"),
    python="pathway",
    keeps=True,
)
PEERS = (TRIVIAL, BRUTE, FAUST, QUIX, QUIX_BRUTE, BYTEWAX, BYTEWAX_BRUTE, BYTEWAX_DEFAULTS, PATHWAY)
CONTENDERS = {contender.name: contender for contender in (OURS, PYTHON, *PEERS)}
TITLES = {contender.name: contender.title for contender in CONTENDERS.values()}


def classes(folder: Path) -> str:
    """The classpath of what is compiled into `folder`."""
    return compiled(folder, SOURCE)
