"""What the contenders are sent: a history, then the load that is measured, each with marks at its
end.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from tests.bench.peers.ranking import K
from tests.bench.worker.events import DIMENSION, review, reviews
from tests.harness.load import Sent

SIZES = (10, 100, 1000, 10_000)
SENTENCES, MOST_WARM = 40_000, 1000
"""In the state when measuring begins, of all entities of one size together; but no fewer than four
entities and no more than `MOST_WARM`.
"""
PER_REVIEW = 100
COLD_SIZES = (10_000, 200_000)
"""Entities of `COLD_SENTENCES` sentences in reviews of `COLD_PER_REVIEW`."""
COLD_SENTENCES, COLD_PER_REVIEW = 20, 4
SKEW = 0.99
"""The entity of rank r has a share of the load in proportion to 1 / r ** SKEW, as in YCSB."""
COLD_MARKS = 64
"""Cold entities with marks, so many that each partition has some: those that are drawn most."""
READY, DONE = "ready", "done"
NEAR = 1e-4
"""Two distances are equal that differ by less: the worker's vectors are 16-bit integers."""


class Workload(NamedTuple):
    """Entities that have so many sentences each, and how the load is spread over them: evenly, or
    by rank with this exponent.
    """

    sentences: int
    entities: int
    skew: float | None = None


class Stream(NamedTuple):
    """All that a contender is sent.

    Attributes:
        before: the history with its marks, made again at each call: it may exceed memory.
        measured: the load with its own.
        marks: entities that have marks.
        distances: by marked entity and sentence id the distance to the final centroid.
    """

    before: Callable[[], Iterable[Sent]]
    measured: list[Sent]
    marks: int
    distances: Mapping[bytes, Mapping[str, float]]

    def ids(self) -> Counter[tuple[str, str]]:
        """(entity, review) of everything."""
        return Counter(id_of(event.key, event.value) for event in [*self.before(), *self.measured])


def id_of(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """(entity, review) of an event, or of one that says that a review is kept."""
    return (key or b"").decode(), json.loads(value or b"")["review_id"]


@lru_cache(maxsize=4)
def stream(workload: Workload, events: int) -> Stream:
    """`events` are those of the load, its marks among them."""
    if workload.skew is not None:
        return _cold(workload, workload.skew, events)
    before = list(history(workload))
    before += marks(before, READY)
    measured = list(load(workload, events - workload.entities))
    measured += marks([*before, *measured], DONE)
    return Stream(lambda: before, measured, workload.entities, distances([*before, *measured]))


def _cold(workload: Workload, skew: float, events: int) -> Stream:
    ranked = np.random.default_rng(0).permutation(workload.entities)
    marked = [int(entity) for entity in ranked[:COLD_MARKS]]
    of_marked = [event for entity in marked for event in _cold_history(entity)]
    ready = marks(of_marked, READY)
    measured = list(_drawn(ranked, skew, events - len(marked)))
    keys = {event.key for event in ready}
    of_marked += [*ready, *(event for event in measured if event.key in keys)]
    done = marks(of_marked, DONE)
    return Stream(
        partial(_cold_before, workload.entities, ready),
        measured + done,
        len(marked),
        distances([*of_marked, *done]),
    )


def _cold_before(entities: int, ready: Iterable[Sent]) -> Iterator[Sent]:
    for entity in range(entities):
        yield from _cold_history(entity)
    yield from ready


def _cold_history(entity: int) -> Iterator[Sent]:
    chance = np.random.default_rng([1, entity])
    for number in range(COLD_SENTENCES // COLD_PER_REVIEW):
        vectors = _centre(entity) + chance.standard_normal((COLD_PER_REVIEW, DIMENSION))
        yield review(f"entity-{entity}", f"before-{number}", vectors.astype("<f4"))


def _drawn(ranked: Any, skew: float, count: int) -> Iterator[Sent]:
    """Reviews of one sentence around the centres of entities that are drawn by rank."""
    chance = np.random.default_rng(2)
    weights = np.arange(1.0, len(ranked) + 1) ** -skew
    drawn = chance.choice(ranked, count, p=weights / weights.sum())
    for number, entity in enumerate(drawn):
        vectors = _centre(int(entity)) + chance.standard_normal((1, DIMENSION))
        yield review(f"entity-{entity}", f"load-{number}", vectors.astype("<f4"))


def _centre(entity: int) -> Any:
    return np.random.default_rng([0, entity]).standard_normal(DIMENSION) * 0.7


def warm(size: int) -> Workload:
    """The entities of this size."""
    return Workload(size, min(MOST_WARM, max(4, SENTENCES // size)))


def cold(entities: int, skew: float = SKEW) -> Workload:
    """So many entities, most of them not in memory."""
    return Workload(COLD_SENTENCES, entities, skew)


def history(workload: Workload) -> Iterator[Sent]:
    """What warm entities have before: their sentences, in as few reviews as may be."""
    size = workload.sentences
    for entity in range(workload.entities):
        for event in reviews(max(1, size // PER_REVIEW), 1, min(size, PER_REVIEW), seed=entity):
            yield _renamed(event, f"entity-{entity}", "before")


def load(workload: Workload, events: int) -> Iterator[Sent]:
    """What is measured of warm entities: reviews of one sentence, round all of them."""
    return (
        _renamed(event, (event.key or b"").decode(), "load")
        for event in reviews(events, workload.entities, seed=1)
    )


def _renamed(event: Sent, entity: str, prefix: str) -> Sent:
    """The same review as one of this entity, with an id that no other part of the stream has."""
    body = json.loads(event.value or b"")
    body |= {"entity_id": entity, "review_id": f"{prefix}-{body['review_id']}"}
    return Sent(entity.encode(), json.dumps(body).encode())


def marks(events: Iterable[Sent], name: str) -> list[Sent]:
    """For each entity of `events` a review of one sentence at their centroid: no sentence but an
    earlier mark is nearer, so every contender publishes it, once it has processed all before it.
    """
    return [
        review(entity.decode(), f"mark-{name}", [vectors.sum(axis=0).astype("<f4")])
        for entity, (_, vectors) in _sentences(events).items()
    ]


def distances(events: Iterable[Sent]) -> dict[bytes, dict[str, float]]:
    """By entity and sentence id the distance to the centroid of the entity's sentences."""
    return {
        entity: dict(
            zip(ids, np.linalg.norm(vectors - vectors.mean(axis=0), axis=1).tolist(), strict=True)
        )
        for entity, (ids, vectors) in _sentences(events).items()
    }


def is_nearest(ids: Iterable[str], distance_of: Mapping[str, float]) -> bool:
    """Whether these are the k sentences nearest to the centroid."""
    found = set(ids)
    limit = sorted(distance_of.values())[:K][-1] + NEAR
    return len(found) == min(K, len(distance_of)) and all(
        distance_of.get(sentence, np.inf) <= limit for sentence in found
    )


def _sentences(events: Iterable[Sent]) -> dict[bytes, tuple[list[str], Any]]:
    """By entity the ids of its sentences and their unit vectors."""
    ids: dict[bytes, list[str]] = {}
    encoded: dict[bytes, list[bytes]] = {}
    for event in events:
        body, entity = json.loads(event.value or b""), event.key or b""
        for place, sentence in enumerate(body["sentences"]):
            ids.setdefault(entity, []).append(f"{body['review_id']}#{place}")
            encoded.setdefault(entity, []).append(base64.b64decode(sentence["embedding"]))
    found = {}
    for entity, names in ids.items():
        vectors = np.frombuffer(b"".join(encoded[entity]), "<f4").reshape(len(names), -1)
        found[entity] = (names, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return found
