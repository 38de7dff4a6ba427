"""Deterministic events: the same on every machine and in every version of Python."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

DIMENSION = 8
START_MS = 1_795_200_000_000  # a day and more before the last of DATES
NOUNS = ("room", "bed", "view", "host", "kitchen", "garden", "street", "price", "bath", "lobby")
ADJECTIVES = ("clean", "quiet", "lovely", "dark", "noisy", "cheap", "old", "warm")
LABELS = {"price": ["price"], "view": ["view", "price"], "host": ["people", "odd"]}
VECTORS = (
    (1, 0, 0, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0, 0, 0),
    (1, 1, 0, 0, 0, 0, 0, 0),
    (3, 0, 0, 0, 0, 0, 0, 0),
    (-1, 0.5, 0, 2, 0, 0, 1e-3, 0),
    (0.25, -0.25, 1, 1, 0, -3, 0, 7.5),
)
DATES = (
    None,
    "2026-11-20T12:00:00Z",
    "2026-11-20T13:00:00+01:00",
    "2026-11-20T12:00:00.5Z",
    "2026-11-20T11:59:59.999-02:30",
    "2027-01-01T00:00:00Z",
)
RATINGS = (None, 1, 2.5, 3, 4.5, 5, 0.1)
LANGUAGES = (None, "en", "日本語", "", "x" * 35, "x" * 36)
POISON = (b"{", b"\xff", b"null", b"[]", b"\0", b"\0\0\0\0\7abc", b'{"type":"review.eaten"}')


class Sent(NamedTuple):
    """A record of the input topic; `body` is an event, raw bytes, or None for a tombstone."""

    partition: int
    key: bytes | None
    body: dict[str, Any] | bytes | None
    timestamp_ms: int


class Events:
    """The events of one stream.

    Args:
        seed: any text.
        vectors: whether sentences have vectors, or the worker's engine embeds texts.
        versions: `present`, `absent` or `mixed`.
        grows: one entity grows, and loses its newest reviews later; otherwise few reviews of
            three entities are written again and again.
        authors: whether reviews say who wrote them, where, and whether that is verified.
    """

    def __init__(
        self, seed: str, *, vectors: bool, versions: str, grows: bool, authors: bool = False
    ) -> None:
        self._random = Random(seed).random  # the only method whose numbers are promised to last
        self._vectors, self._versions, self._grows = vectors, versions, grows
        self._authors = authors
        self._entities = ("grown", "other") if grows else ("a", "é😀\0", "b#0")
        self._live: list[tuple[str, str]] = []  # entity and review, oldest first
        self._written = 0
        self._version = 0
        self._centre = [0.0] * DIMENSION

    def draw(self, count: int) -> Iterator[Sent]:
        """The events in order, some of them repeated later."""
        sent: list[Sent] = []
        for step in range(count):
            again = sent and self._random() < 0.05
            event = self._one_of(sent) if again else self._next(step / count, step)
            sent.append(event)
            yield event

    # -- chance

    def _below(self, count: int) -> int:
        return int(self._random() * count)

    def _one_of(self, given: Any) -> Any:
        return given[self._below(len(given))]

    # -- events

    def _next(self, progress: float, step: int) -> Sent:
        entity = self._entities[0 if self._grows and self._random() < 0.9 else self._below(2)]
        if not self._grows:
            entity = self._one_of(self._entities)
        chance = self._random()
        if self._grows and 0.55 < progress < 0.8 and chance < 0.8 and self._live:
            entity, review = self._live.pop()  # the newest one
            body: Any = self._body("review.deleted", entity, review_id=review)
        elif chance < (0.93 if self._grows and progress < 0.55 else 0.6):
            body = self._upserted(entity)
        elif chance < 0.74:
            body = self._deleted(entity)
        elif chance < 0.86:
            ids = [f"{self._review(entity)}#{self._below(3)}" for _ in range(1 + self._below(4))]
            body = self._body("sentences.deleted", entity, sentence_ids=[*ids, "nonsense"])
        elif chance < (0.91 if entity != "grown" or progress > 0.95 else 0.0):
            body = self._one_of((None, self._body("entity.deleted", entity)))
        else:
            body = self._wrong(entity)
        key: bytes | None = entity.encode()
        if chance > 0.995:
            key = self._one_of((None, b"somebody else"))
        moment = -1 if self._random() < 0.05 else START_MS + 1000 * step
        return Sent(self._entities.index(entity) % 2, key, body, moment)

    def _body(self, kind: str, entity: str, **fields: Any) -> dict[str, Any]:
        body = {"type": kind, "entity_id": entity, **fields}
        has_version = self._versions == "present" or (
            self._versions == "mixed" and self._random() < 0.5
        )
        if kind.startswith("review.") and has_version:
            self._version += 1
            late = self._random() < 0.2
            body["review_version"] = (
                max(0, self._version - self._below(40))
                if late
                else (self._version if self._grows else 1 + self._version // 8)
            )
        if self._random() < 0.5:
            body["occurred_at"] = self._one_of(DATES)
        return body

    def _review(self, entity: str) -> str:
        own = [review for of, review in self._live if of == entity]
        if self._grows and own:
            return str(self._one_of(own))
        return str(self._one_of(("r", "r#0", "\0", "s", "long" * 20)))

    def _upserted(self, entity: str) -> dict[str, Any]:
        is_new = self._grows and self._random() < 0.9
        self._written += is_new
        review = f"r{self._written}" if is_new else self._review(entity)
        if is_new:
            self._live.append((entity, review))
            self._centre = [round(c + 0.1 * (self._random() - 0.4), 3) for c in self._centre]
        body = self._body("review.upserted", entity, review_id=review)
        body["rating"] = self._one_of(RATINGS)
        body["language"] = self._one_of(LANGUAGES)
        if self._authors:
            body["verified"] = self._one_of((None, False, True))
            body["country"] = self._one_of((None, "NL", "", "é" * 24, "é" * 25))
            body["author_id"] = self._one_of((None, "u-1", "", '"' * 64, '"' * 65))
        count = self._one_of((0, 1, 1, 2, 3, 4))
        if self._vectors or self._random() < 0.4:
            body["sentences"] = [self._sentence() for _ in range(count)]
        else:
            body["text"] = " ".join(self._text() for _ in range(count))
        return body

    def _deleted(self, entity: str) -> dict[str, Any]:
        review = "never seen" if self._random() < 0.1 else self._review(entity)
        return self._body("review.deleted", entity, review_id=review, reason="spam")

    def _text(self) -> str:
        if self._random() < 0.04:
            return self._one_of((" ", "Long " * 30 + "text.", "Nothing."))  # type: ignore[no-any-return]
        return f"The {self._one_of(NOUNS)} was {self._one_of(ADJECTIVES)}."

    def _sentence(self) -> dict[str, Any]:
        text = self._text()
        sentence: dict[str, Any] = {"text": text}
        if self._random() < 0.8:
            words = text.split()
            sentence["labels"] = LABELS.get(words[1] if len(words) > 1 else "", [])
        if self._vectors:
            sentence["embedding"] = self._vector()
        return sentence

    def _vector(self) -> list[float]:
        if self._random() < (0.15 if self._grows else 0.6):
            return list(self._one_of(VECTORS))
        return [round(c + 2 * self._random() - 1, 3) for c in self._centre]

    def _wrong(self, entity: str) -> dict[str, Any] | bytes:
        """An event that becomes a dead letter."""
        good = {"text": "x", "embedding": [1.0] * DIMENSION}

        def given(*sentences: Any, **fields: Any) -> dict[str, Any]:
            body = self._body("review.upserted", entity, review_id="r", sentences=list(sentences))
            return body | fields

        return self._one_of(  # type: ignore[no-any-return]
            (
                *POISON,
                {"type": "review.upserted", "entity_id": entity, "review_id": "r"},
                given(good, {"text": "x", "embedding": [1.0, 2.0]}),
                given({"text": "x", "embedding": [0.0] * DIMENSION}),
                given({"text": "x", "embedding": None}),
                given(good, embedding_model="another"),
                given(*[good] * 41),
                given({"text": "t" * 500}),
                {**given(), "sentences": None, "text": "void"},
                self._body("sentences.deleted", entity, sentence_ids=["r#0"] * 13),
                given({"text": "y" * 9000}),
                b'{"padding":"' + b"z" * 2**19 + b'"}' if self._random() < 0.2 else b"\n",
            )
        )


def as_json(body: dict[str, Any], *, is_base64: bool) -> bytes:
    """The event in JSON, its vectors as numbers or as base64."""
    if is_base64 and body.get("sentences"):
        sentences = [
            sentence | {"embedding": base64.b64encode(packed(sentence["embedding"])).decode()}
            if sentence.get("embedding")
            else sentence
            for sentence in body["sentences"]
        ]
        body = body | {"sentences": sentences}
    return json.dumps(body, ensure_ascii=not is_base64).encode()


def packed(vector: list[float]) -> bytes:
    """The vector as little-endian float32."""
    return struct.pack(f"<{len(vector)}f", *vector)


def of_a_shop(body: dict[str, Any]) -> bytes:
    """The event as a shop's record, which `MAPPING` reads."""
    states = {"review.upserted": "visible", "review.deleted": "removed"}
    row = {
        "id": body.get("review_id"),
        "rev": body.get("review_version"),
        "state": states.get(body["type"], "draft"),
        "headline": "Stay",
        "body": body.get("text") or " ".join(s["text"] for s in body.get("sentences") or ()),
        "stars": body.get("rating"),
        "changed": START_MS + 1000 * len(json.dumps(body)),
    }
    return json.dumps({name: value for name, value in row.items() if value is not None}).encode()


MAPPING = """
[topic.reviews]
[[topic.reviews.rule]]
when = { state = "visible" }
emit = "review.upserted"
entity_id = "key"
review_id = "id"
review_version = "rev"
text = { join = ["headline", "body"], with = ". " }
rating = "stars"
language = ["lang", { const = "en" }]
occurred_at = { path = "changed", epoch = "ms" }

[[topic.reviews.rule]]
when = { state = "removed" }
emit = "review.deleted"
entity_id = "key"
review_id = "id"
review_version = "rev"

[[topic.reviews.rule]]
when = { state = "draft" }
emit = "ignore"
"""
