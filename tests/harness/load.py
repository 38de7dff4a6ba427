"""Event streams from files of reviews: what a marketplace sends, with every disturbance that the
contract names.

A stream is a pure function of its reviews, vectors, mix and seed. Reviews of all entities arrive
interleaved; edits, deletions, duplicates, late versions and poison come between them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.poison import Poison, poisons
from tests.harness.topics import producer
from worker.text.embedders import load_engine

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STRANGE_IDS = ("nul\0inside", 'quo"ted \\ back', "emoji 🏨‍♀️", "line\nbreak", "x" * 1000, "#", "a#0")


class Sent(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None


class Vectors(Protocol):
    """Where the sentences of events get their vectors from."""

    dimension: int

    def of(self, sentence: str) -> str | None:
        """The vector of a sentence in base64, None to leave it to the worker."""


class HashedVectors:
    """A vector drawn by the sentence's hash: no meaning, any dimension, no time. Equal texts have
    equal vectors.
    """

    def __init__(self, dimension: int = 16):
        self.dimension = dimension

    def of(self, sentence: str) -> str:
        """The sentence's vector; a third of all sentences share one of 50, as short real
        ones do.
        """
        digest = hashlib.sha256(sentence.encode()).digest()
        number = int.from_bytes(digest[:8], "little")
        seed = number % 50 if number % 3 == 0 else number
        vector = np.random.default_rng(seed).standard_normal(self.dimension) + 0.5
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()


class EngineVectors:
    """Vectors of the worker's default engine, computed once for a set of reviews and kept in
    `.cache`.

    The few sentences that only disturbances make are embedded when they are asked for.
    """

    def __init__(self, reviews: Sequence[Review]):
        sentences = sorted({sentence for review in reviews for sentence in review.sentences})
        digest = hashlib.sha256("\0".join(sentences).encode()).hexdigest()[:16]
        path = ROOT / ".cache" / "vectors" / f"minilm-{digest}.npy"
        if not path.exists():
            _embed(sentences, path)
        matrix = np.load(path)
        self.dimension = int(matrix.shape[1])
        self._rows = dict(zip(sentences, matrix, strict=True))

    def of(self, sentence: str) -> str:
        """The sentence's vector."""
        if sentence not in self._rows:
            self._rows[sentence] = _engine().embed([sentence])[0].astype("<f4")
        return base64.b64encode(self._rows[sentence].tobytes()).decode()


class NoVectors:
    """Events carry text alone: the worker splits and embeds."""

    dimension = 384

    def of(self, sentence: str) -> None:
        """None, always."""


@cache
def _engine() -> Any:
    return load_engine("onnx")


def _embed(sentences: list[str], path: Path) -> None:
    matrix = np.concatenate(
        [_engine().embed(chunk) for chunk in batched_lists(sentences, 512)]
    ).astype("<f4")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npy")
    np.save(partial, matrix)
    partial.rename(path)


RATINGS = (1, 2, 3.5, 4, 5, None)
LANGUAGES = ("en", "en-GB", "fr", None, "nl")
"""What reviews of a file without these facts have; without a tag a worker looks at the text."""


def _pick(review_id: str, values: Sequence[Any]) -> Any:
    """One of the values, always the same for the same review."""
    digest = hashlib.sha256(f"{review_id} {len(values)}".encode()).digest()
    return values[int.from_bytes(digest[:4]) % len(values)]


class Review(NamedTuple):
    """One review of a file."""

    entity_id: str
    review_id: str
    rating: float | None
    occurred_at: str | None
    text: str

    @property
    def sentences(self) -> list[str]:
        """Split as an upstream might: at full stops."""
        return [part for part in re.split(r"(?<=[.!?])\s+", self.text.strip()) if part]


def read_reviews(path: Path = SAMPLE, *, limit: int | None = None, seed: int = 0) -> list[Review]:
    """The reviews of a JSONL file, in an order shuffled by `seed`: entities interleave. At most
    `limit` of them.

    Some entities are given ids that a careless store would stumble over.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    random.Random(seed).shuffle(rows)
    reviews = []
    for row in rows[:limit]:
        entity_id = row["entity_id"]
        number = int.from_bytes(hashlib.sha256(entity_id.encode()).digest()[:4], "little")
        if number % 3 == 0:
            entity_id += " " + STRANGE_IDS[number // 3 % len(STRANGE_IDS)]
        reviews.append(
            Review(
                entity_id,
                row["review_id"],
                row.get("rating", _pick(row["review_id"], RATINGS)),
                row.get("created_at"),
                row["text"],
            )
        )
    return reviews


@dataclass(frozen=True)
class Mix:
    """How often, per review sent, each disturbance follows it."""

    edit: float = 0.10
    delete: float = 0.06
    delete_sentences: float = 0.05
    delete_entity: float = 0.003
    duplicate: float = 0.03
    late: float = 0.03
    early_delete: float = 0.01
    unknown: float = 0.01
    poison: float = 0.01


@dataclass
class _Live:
    """What the sender remembers of a review: enough to edit, repeat and delete it."""

    review: Review
    version: int | None
    sent: Sent


class Stream:
    """The events of `reviews`, disturbed by `mix`; iterate once for a fresh, equal stream each
    time.
    """

    def __init__(
        self, reviews: Sequence[Review], vectors: Vectors, *, seed: int = 0, mix: Mix | None = None
    ):
        self._reviews = reviews
        self._vectors = vectors
        self._seed = seed
        self._mix = mix or Mix()
        # Ten megabytes of poison belong into a test of their own, not between all the reviews.
        self._poisons = [
            poison for poison in poisons(vectors.dimension) if len(poison.value) < 500_000
        ]

    def __iter__(self) -> Iterator[Sent]:
        """Reviews in order; after each, perhaps, one or more disturbances."""
        self._random = random.Random(self._seed)
        self._live: list[_Live] = []
        weights = {getattr(self, f"_{name}"): share for name, share in vars(self._mix).items()}
        for review in self._reviews:
            yield self._upsert(review, self._random.choice([None, 1, 5]))
            for disturb, share in weights.items():
                if self._random.random() < share:
                    yield disturb()

    def _upsert(self, review: Review, version: int | None) -> Sent:
        sentences = [
            {"text": sentence, "embedding": vector}
            if (vector := self._vectors.of(sentence))
            else sentence
            for sentence in review.sentences
        ]
        body: dict[str, Any] = {
            "type": "review.upserted",
            "entity_id": review.entity_id,
            "review_id": review.review_id,
            "review_version": version,
            "text": review.text,
            "rating": review.rating,
            "verified": _pick(review.review_id, (True, False, None)),
            "language": _pick(review.review_id, LANGUAGES),
            "occurred_at": review.occurred_at,
            "a field of the future": {"ignored": [1, 2]},
        }
        if not isinstance(self._vectors, NoVectors):
            body["sentences"] = sentences
        sent = self._sent(review.entity_id, body)
        self._live.append(_Live(review, version, sent))
        return sent

    def _sent(self, entity_id: str, body: dict[str, Any]) -> Sent:
        return Sent(
            entity_id.encode(), json.dumps(body, ensure_ascii=self._random.random() < 0.5).encode()
        )

    def _any(self) -> _Live:
        """One that was sent before, recent ones more often."""
        back = int(len(self._live) * self._random.random() ** 3)
        return self._live[-1 - back]

    def _edit(self) -> Sent:
        """Another text under the same id: sentences dropped, kept, or borrowed from
        another review.
        """
        old, other = self._any(), self._any()
        kept = [sentence for sentence in old.review.sentences if self._random.random() < 0.7]
        text = " ".join([*kept, *other.review.sentences[:1]])
        version = None if old.version is None else old.version + self._random.choice([1, 1, 3])
        return self._upsert(old.review._replace(text=text), version)

    def _delete(self) -> Sent:
        old = self._any()
        version = None if old.version is None else old.version + self._random.choice([0, 1])
        return self._sent(old.review.entity_id, self._deletion(old.review, version))

    def _deletion(self, review: Review, version: int | None) -> dict[str, Any]:
        return {
            "type": "review.deleted",
            "entity_id": review.entity_id,
            "review_id": review.review_id,
            "review_version": version,
            "reason": "spam",
            "occurred_at": review.occurred_at,
        }

    def _delete_sentences(self) -> Sent:
        review = self._any().review
        ids = [f"{review.review_id}#{i}" for i in range(3) if self._random.random() < 0.6]
        body = {
            "type": "sentences.deleted",
            "entity_id": review.entity_id,
            "sentence_ids": [*ids, "unknown#0"],
        }
        return self._sent(review.entity_id, body)

    def _delete_entity(self) -> Sent:
        entity_id = self._any().review.entity_id
        if self._random.random() < 0.5:
            return Sent(entity_id.encode(), None)
        return self._sent(
            entity_id, {"type": "entity.deleted", "entity_id": entity_id, "occurred_at": None}
        )

    def _duplicate(self) -> Sent:
        """The very same bytes again."""
        return self._any().sent

    def _late(self) -> Sent:
        """An older version after a newer one, where there are versions."""
        old = self._any()
        version = None if old.version is None else max(0, old.version - self._random.choice([1, 4]))
        return self._upsert(old.review._replace(text="Late. " + old.review.text[:50]), version)

    def _early_delete(self) -> Sent:
        """A delete before its create. Edits to come may create it; some of them are suppressed."""
        review = self._any().review
        review = review._replace(review_id=f"{review.review_id}-early")
        sent = self._sent(review.entity_id, self._deletion(review, self._random.choice([2, 3, 4])))
        self._live.append(_Live(review, 3, sent))
        return sent

    def _unknown(self) -> Sent:
        """About an entity that nobody has heard of."""
        return self._random.choice(
            [
                Sent(b"nobody", None),
                self._sent(
                    "nobody",
                    {"type": "sentences.deleted", "entity_id": "nobody", "sentence_ids": ["x#0"]},
                ),
                self._sent("nobody", {"type": "entity.deleted", "entity_id": "nobody"}),
            ]
        )

    def _poison(self) -> Sent:
        bad: Poison = self._random.choice(self._poisons)
        return Sent(bad.key, bad.value)


def rounds(
    reviews: Sequence[Review], vectors: Vectors, *, seed: int = 0, mix: Mix | None = None
) -> Iterator[Sent]:
    """The reviews' stream without an end: after each round come other entities with the same
    reviews.
    """
    for number in count():
        renamed = [review._replace(entity_id=f"{review.entity_id}~{number}") for review in reviews]
        yield from Stream(renamed, vectors, seed=seed + number, mix=mix)


def send(
    bootstrap_servers: str,
    topic: str,
    events: Iterable[Sent],
    *,
    codecs: Sequence[str] = ("none",),
    chunk: int = 200,
    events_per_s: float | None = None,
) -> int:
    """Send `events` in chunks, the codecs in turn. Their number."""
    producers = [
        producer(bootstrap_servers, **IN_ORDER, **{"compression.type": codec}) for codec in codecs
    ]
    started_s, total = time.monotonic(), 0
    for number, part in enumerate(batched_lists(events, chunk)):
        sender = producers[number % len(producers)]
        for event in part:
            sender.produce(topic, key=event.key, value=event.value)
        # One codec's records are all in the log before the next codec's: the order of the stream is
        # kept.
        _flush(sender)
        total += len(part)
        _hold_back(total, events_per_s, started_s)
    return total


def send_in_transactions(
    bootstrap_servers: str,
    topic: str,
    events: Iterable[Sent],
    *,
    seed: int = 0,
    abort_share: float = 0.3,
    chunk: int = 50,
    events_per_s: float | None = None,
) -> int:
    """Send `events` in transactions, and between them aborted ones that would delete what was sent.
    Their number.
    """
    chance = random.Random(seed)
    sender = producer(bootstrap_servers, **{"transactional.id": f"load-{topic}"})
    sender.init_transactions(PATIENCE_SECONDS)
    started_s, total = time.monotonic(), 0
    for part in batched_lists(events, chunk):
        for committed in (True, False) if chance.random() < abort_share else (True,):
            sender.begin_transaction()
            for event in part:
                value = event.value if committed else None  # a null value deletes the entity
                sender.produce(topic, key=event.key or b"aborted", value=value)
            _flush(sender)
            (sender.commit_transaction if committed else sender.abort_transaction)(PATIENCE_SECONDS)
        total += len(part)
        _hold_back(total, events_per_s, started_s)
    return total


def send_one_by_one(
    bootstrap_servers: str, topic: str, events: Iterable[Sent], *, events_per_s: float
) -> None:
    """Send `events` without waiting for answers.

    What a partition's broker does not take waits in the client, up to five minutes, while the other
    partitions' events go on: a broker that is away stops nobody else's load. The client looks for a
    new leader within seconds.
    """
    failed: list[Any] = []
    sender = producer(bootstrap_servers, **IN_ORDER, **_IMPATIENT)
    started_s = time.monotonic()
    for sent, event in enumerate(events):
        _hold_back(sent, events_per_s, started_s)
        sender.produce(
            topic,
            key=event.key,
            value=event.value,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        sender.poll(0)
        assert not failed, f"not sent: {failed[0]}"
    _flush(sender)
    assert not failed, f"not sent: {failed[0]}"


class SteadyLoad:
    """`events_per_s` of `events`, in a thread of its own, until `end`.

    Args:
        how: `send_one_by_one`, `send` or `send_in_transactions`; `options` are its own.

    Attributes:
        sent: how many were handed over.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        events: Iterable[Sent],
        events_per_s: float,
        how: Callable[..., Any] = send_one_by_one,
        **options: Any,
    ) -> None:
        self.sent = 0
        self._over = threading.Event()
        self._fault: BaseException | None = None
        work = partial(
            how, bootstrap_servers, topic, self._until_over(events), events_per_s=events_per_s
        )
        self._thread = threading.Thread(target=self._send, args=(work, options), daemon=True)
        self._thread.start()

    def check(self) -> None:
        """AssertionError where sending failed."""
        assert self._fault is None, self._fault

    def end(self) -> None:
        """Send no more; AssertionError where sending failed, or what was sent is not in the log in
        time.
        """
        self._over.set()
        self._thread.join(FLUSH_SECONDS + PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the load does not end"
        self.check()

    def _until_over(self, events: Iterable[Sent]) -> Iterator[Sent]:
        for event in events:
            if self._over.is_set():
                return
            yield event
            self.sent += 1

    def _send(self, work: Callable[..., Any], options: Mapping[str, Any]) -> None:
        try:
            work(**options)
        except BaseException as fault:
            self._fault = fault


_IMPATIENT = {
    "request.timeout.ms": 2000,
    "socket.timeout.ms": 3000,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1000,
}
IN_ORDER = {"enable.idempotence": True, "delivery.timeout.ms": 300_000}
FLUSH_SECONDS = 300.0


def _hold_back(sent: int, events_per_s: float | None, started_s: float) -> None:
    if events_per_s:
        time.sleep(max(0.0, sent / events_per_s - (time.monotonic() - started_s)))


def _flush(sender: Any) -> None:
    left = sender.flush(FLUSH_SECONDS)
    assert not left, f"{left} records could not be sent"


def batched_lists(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """`items` in lists of `size`, the last perhaps shorter."""
    part: list[Any] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
