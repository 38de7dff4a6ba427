"""The events of a seed: few entities, reviews, texts and vectors, so that everything collides with
everything.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from worker.facets.definitions import read_definitions

DIMENSION = 4
ENTITIES = ("a", "é😀\0", "b#0")
REVIEWS = ("r", "r#0", "\0", "s")
TEXTS = ("good", "bad", "okay", " ", "fine thing")
VECTORS = (
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [1, 1, 0, 0],
    [1, 1, 1, 0],
    [-1, 0.5, 0, 2],
    [3, 0, 0, 0],
    [0.3, -0.2, 0.9, 1],
)
LABELS = {"bad": ["price"], "okay": ["price", "size"]}
DATES = (
    "2026-11-20T12:00:00Z",
    "2026-11-20T13:00:00.5+01:00",
    "2026-11-20T12:00:00Z",
    "2026-11-19T12:00:00Z",
)
"""By the number of sentences."""
POISON = (
    b"{",
    b"\xff",
    b'{"type":"review.eaten","entity_id":"a"}',
    b'{"type":"review.deleted"}',
    b"null",
)


FACETS_FILE = Path(__file__).with_name("facets.toml")
FACETS = read_definitions(str(FACETS_FILE))


class Sent(NamedTuple):
    """A record of the input topic."""

    partition: int
    key: bytes
    value: bytes | None


def as_base64(vector: Sequence[float]) -> str:
    """As little-endian float32."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class Load:
    """Draws events; an entity has one partition for good."""

    def __init__(self, random: Random, partitions: int, *, is_base64: bool = False) -> None:
        self._random = random
        self._is_base64 = is_base64
        self._crowded = random.random() < 0.15
        self._partitions = partitions
        self._sent: list[Sent] = []

    def draw(self) -> Sent:
        """The next event; one in ten is one that was sent before."""
        if self._sent and self._random.random() < 0.1:
            return self._random.choice(self._sent)
        entity = self._random.choice(ENTITIES)
        kind = self._random.choices(_KINDS, _WEIGHTS)[0]
        sent = Sent(ENTITIES.index(entity) % self._partitions, entity.encode(), kind(self, entity))
        self._sent.append(sent)
        return sent

    def deletion(self) -> Sent:
        """The end of an entity."""
        entity = self._random.choice(ENTITIES)
        return Sent(ENTITIES.index(entity) % self._partitions, entity.encode(), None)

    def _body(self, kind: str, entity: str, **fields: Any) -> bytes:
        return json.dumps(
            {"type": kind, "entity_id": entity, **fields}, ensure_ascii=False
        ).encode()

    def _version(self) -> int | None:
        return self._random.choice((None, None, 0, 1, 2, 3, 4))

    def _sentence(self) -> dict[str, Any]:
        text, embedding = self._random.choice(TEXTS), self._random.choice(VECTORS)
        return {"text": text, "embedding": embedding, "labels": LABELS.get(text, [])}

    def _crowd(self) -> list[dict[str, Any]]:
        """More sentences than a reservoir takes, around a centre of their own: the centroid goes
        far.
        """
        centre = [self._random.gauss(0, 3) for _ in range(DIMENSION)]
        return [
            {
                "text": f"sentence {i}",
                "embedding": [round(self._random.gauss(c, 1), 3) for c in centre],
            }
            for i in range(self._random.randint(20, 45))
        ]

    def upserted(self, entity: str) -> bytes:
        """A review, new or edited, in or out of order."""
        few = [self._sentence() for _ in range(self._random.choice((0, 1, 1, 2, 2, 3)))]
        date = DATES[len(few)]
        return self._body(
            "review.upserted",
            entity,
            review_id=self._random.choice(REVIEWS),
            review_version=self._version(),
            rating=self._random.choice((None, 1, 4.5)),
            occurred_at=self._random.choice((None, date)),
            language=("fr-CA", "en", None, "fr")[len(few)],
            verified=(None, True, False, None)[len(few)],
            author_id=f"author {len(few)}",
            country=(None, "NL")[len(few) // 2],
            sentences=self._as_sent(
                self._crowd() if self._crowded and self._random.random() < 0.5 else few
            ),
        )

    def _as_sent(self, sentences: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """In base64 the usual form, which has no labels."""
        if not self._is_base64:
            return sentences
        return [
            {"text": sentence["text"], "embedding": as_base64(sentence["embedding"])}
            for sentence in sentences
        ]

    def deleted(self, entity: str) -> bytes:
        """A review's deletion, before its creation perhaps, or again."""
        return self._body(
            "review.deleted",
            entity,
            review_id=self._random.choice(REVIEWS),
            review_version=self._version(),
        )

    def sentences_deleted(self, entity: str) -> bytes:
        """Some sentences, there or not."""
        ids = [f"{self._random.choice(REVIEWS)}#{self._random.randrange(3)}" for _ in range(3)]
        return self._body("sentences.deleted", entity, sentence_ids=ids)

    def entity_deleted(self, entity: str) -> bytes | None:
        """The whole entity, in either way."""
        return self._random.choice((None, self._body("entity.deleted", entity)))

    def poison(self, entity: str) -> bytes:
        """No event."""
        wrong = [{"text": "x", "embedding": self._random.choice(([0] * DIMENSION, [1, 2], None))}]
        return self._random.choice(
            (*POISON, self._body("review.upserted", entity, review_id="r", sentences=wrong))
        )


_KINDS = (Load.upserted, Load.deleted, Load.sentences_deleted, Load.entity_deleted, Load.poison)
_WEIGHTS = (60, 14, 12, 7, 7)
