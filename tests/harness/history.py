"""What the input topic's records must have led to: the contract's straight-line model over raw
Kafka records.

The rules are those of `tests/harness/model.py`, one event at a time. Here it gets what real input
needs: the verdict on bad records (of `worker.events.decode`, one record alone), vectors in base64,
and a ranking that is still by brute force over all live sentences but in NumPy's integers, so that
entities of tens of thousands of sentences can be verified.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.harness.compare import Change, DeadLetter
from tests.harness.facet_model import FacetModel
from tests.harness.model import Model
from tests.harness.topics import Message
from worker.events import Record, Rejected, decode
from worker.processing.config import processor_config
from worker.settings import Settings
from worker.text.embedders import load_engine

SCALE = 32767


class History(NamedTuple):
    """The messages that must be there, each exactly once, and how each record ended."""

    changes: list[Change]
    dead_letters: list[DeadLetter]
    outcomes: Counter[str]
    facets: list[Change]


def history(messages: Iterable[Message], settings: Settings) -> History:
    """The history of the input `messages` under `settings`."""
    model = _model(settings)
    result = History([], [], Counter(), [])
    for message in messages:
        record = Record(*message[:6])
        published, (outcome,) = model.run([record])
        result.outcomes[outcome] += 1
        if outcome.startswith("dead_letter:"):
            result.dead_letters.append(DeadLetter(message, outcome.removeprefix("dead_letter:")))
            continue
        for key, value, ce_id in published:
            body = None if value is None else json.loads(value)
            occurred_at = body["occurred_at"] if body else _occurred_at(message)
            change = Change(
                message.partition, key.decode(), settings.epoch, message.offset, occurred_at, body
            )
            if change.ce_id == ce_id:
                result.changes.append(change)
            else:
                result.facets.append(change._replace(of_facets=True))
    return result


def _occurred_at(message: Message) -> str | None:
    """Of an entity's deletion; a null value has none."""
    occurred_at: str | None = (
        None if message.value is None else json.loads(message.value).get("occurred_at")
    )
    return occurred_at


def _model(settings: Settings) -> RecordModel:
    engine = load_engine(settings.embedder, threads=1)
    made = processor_config(settings, 1, engine)
    config = SimpleNamespace(
        k=settings.k,
        distinct=made.distinct,
        by_text=made.by_text,
        emit="every",
        min_changes=settings.emit_min_changes,
        emit_mentions=settings.emit_mentions,
        epoch=settings.epoch,
        limits=made.limits,
        facets=made.facets,
    )

    @cache
    def embed(text: str) -> list[float]:
        assert engine is not None
        vector: list[float] = engine.embed([text])[0].tolist()
        return vector

    return record_model(config, embed)


class RecordModel(Model):
    """The model over whatever bytes a topic may hold."""

    def __init__(self, config: Any, embed: Callable[[str], list[float]]):
        super().__init__(config, embed)

    @staticmethod
    def rank(
        live: Mapping[bytes, NDArray[np.int16]],
        k: int,
        *,
        distinct: bool = False,
        by_text: bool = False,
    ) -> Ranked:
        """The k nearest to the centroid of all, by exact integer keys."""
        return rank(live, k, distinct=distinct, by_text=by_text)

    def step(self, i: int, record: Record) -> str:
        """One record, whatever it is: its outcome."""
        verdict = decode([record], self.config.limits)[0]
        if isinstance(verdict, Rejected):
            return f"dead_letter:{verdict.reason}"
        event = {"type": "entity.deleted", "entity_id": (record.key or b"").decode()}
        if record.value is not None:
            event = json.loads(record.value)
        for item in event.get("sentences") or ():
            if isinstance(item, dict) and isinstance(item.get("embedding"), str):
                item["embedding"] = np.frombuffer(
                    base64.b64decode(item["embedding"]), "<f4"
                ).tolist()
        handle = getattr(self, event["type"].replace(".", "_"))
        return handle(i, record, event) or "applied"


class FacetRecordModel(FacetModel, RecordModel):
    """The same, with facets."""


def record_model(config: Any, embed: Callable[[str], list[float]]) -> RecordModel:
    """The model of a configuration, with facets if it has any."""
    return (RecordModel if config.facets is None else FacetRecordModel)(config, embed)


class Ranked(NamedTuple):
    """A summary's ids in rank order, how many live sentences share each one's vector, and its
    squared distance's parts.
    """

    ids: list[bytes]
    support: list[int]
    numerators: list[int]
    denominator: int

    def distances(self) -> list[float]:
        """Rounded to six decimals, halves up, in integers."""
        doubled = (
            math.isqrt(4 * 10**12 * numerator // self.denominator) for numerator in self.numerators
        )
        return [(twice + 1) // 2 / 10**6 for twice in doubled]


def rank(
    live: Mapping[bytes, NDArray[np.int16]], k: int, *, distinct: bool, by_text: bool = False
) -> Ranked:
    """By key n|x|^2 - 2 x.S over all live sentences, or the first of each vector, ties by id.

    float64 adds integers exactly as long as none passes 2^53, which is asserted for the largest
    possible one.
    """
    copies = Counter(vector.tobytes() for vector in live.values())
    if by_text:
        lowest = {live[i].tobytes(): i for i in sorted(live, reverse=True)}
        live = {i: live[i] for i in lowest.values()}
    n, ids = len(live), list(live)
    points = np.stack([live[i] for i in ids]).astype(np.float64)
    norms = np.einsum("ij,ij->i", points, points)
    total = points.sum(axis=0)
    assert n * norms.max() + 2 * math.sqrt(norms.max() * float(total @ total)) < 2**53
    keys = n * norms - 2 * (points @ total)
    first = {} if distinct else None
    near = _nearest(keys, k) if first is None else range(n)
    ordered = sorted(near, key=lambda i: (keys[i], ids[i]))
    if first is not None:
        for i in ordered:
            first.setdefault(points[i].tobytes(), i)
        ordered = list(first.values())
    chosen = ordered[:k]
    squared = sum(int(s) ** 2 for s in total.tolist())
    return Ranked(
        [ids[i] for i in chosen],
        [copies[live[ids[i]].tobytes()] for i in chosen],
        [n * int(keys[i]) + squared for i in chosen],
        (n * SCALE) ** 2,
    )


def _nearest(keys: NDArray[np.float64], k: int) -> list[int]:
    """The indices of the k least keys and of all that equal the k-th."""
    if len(keys) <= k:
        return list(range(len(keys)))
    bound = np.partition(keys, k - 1)[k - 1]
    nearest: list[int] = np.flatnonzero(keys <= bound).tolist()
    return nearest
