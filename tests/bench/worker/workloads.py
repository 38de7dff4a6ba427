"""The workloads that are measured as a backlog, and what they ask of the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.bench.worker.events import ENTITIES, busy, real, reviews
from tests.harness.load import SAMPLE, EngineVectors, Mix, NoVectors, Sent, Stream, read_reviews


class Workload(NamedTuple):
    """A backlog; `make` takes the number of events and a file of reviews. `settings` are variables
    without the prefix.
    """

    name: str
    about: str
    make: Callable[[int, Path], Iterator[Sent]]
    settings: Mapping[str, str]
    share: float = 1.0
    """Of the events: those with several sentences take longer."""


def _real(count: int, file: Path) -> Iterator[Sent]:
    found = [review for review in read_reviews(file) if review.sentences]
    return real(found, EngineVectors(found), count)


def _texts(count: int, file: Path) -> Iterator[Sent]:
    nothing = Mix(**dict.fromkeys(vars(Mix()), 0.0))
    return iter(Stream(read_reviews(file, limit=count), NoVectors(), mix=nothing))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "synthetic",
            f"one sentence an event, {ENTITIES:,} entities: four fifths of the events change a "
            "summary",
            lambda count, _: reviews(count, ENTITIES),
            {},
        ),
        Workload(
            "real",
            f"reviews of {SAMPLE.name} or another file, all sentences with the default engine's "
            "vectors; where there are "
            "too few, they come again as other entities' reviews",
            _real,
            {},
            share=0.5,
        ),
        Workload(
            "zipf",
            f"one sentence an event, nine tenths of them for a tenth of {ENTITIES:,} entities, "
            "emit=coalesced",
            lambda count, _: busy(count, ENTITIES),
            {"emit": "coalesced"},
        ),
    )
}
TEXTS = Workload(
    "texts",
    f"reviews of {SAMPLE.name} or another file as text, embedded by the default engine",
    _texts,
    {"embedder": "onnx"},
    share=0.03,
)
SAMPLE_FILE = SAMPLE
