"""What the demo has seen so far: entities, their summaries, the latest changes.

Filled from the output topic alone, as any consumer would, and from the worker's own counts; drawn by `display`.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from worker.events import SummaryChanged, SummarySentence

_LATEST: Final = 100
_decode: Final = msgspec.json.Decoder(SummaryChanged).decode


@dataclass(slots=True)
class Entity:
    """One entity as of its last summary change."""

    entity_id: str
    review_count: int = 0
    sentence_count: int = 0
    changes: int = 0
    changed_at: float = 0.0
    sentences: Sequence[SummarySentence] = ()

    @property
    def first_sentence(self) -> str:
        """The sentence nearest to the centroid, in one line."""
        return one_line(self.sentences[0].text) if self.sentences else ""


@dataclass(frozen=True, slots=True)
class Change:
    """One summary change in texts, each in one line."""

    entity_id: str
    cause: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(slots=True)
class Story:
    """Everything there is to show. Times are of `time.monotonic()`."""

    k: int
    total: int
    """Events that will be sent."""
    phase: str = "starting"
    entities: dict[str, Entity] = field(default_factory=dict)
    latest: deque[Change] = field(default_factory=lambda: deque(maxlen=_LATEST))
    changes: int = 0
    sent: int = 0
    processed: int = 0
    published: int = 0
    """Summary changes by the worker's own count."""
    embedded: int = 0
    dead_letters: int = 0
    verified: int = 0
    """Entities whose stored summary equals brute force."""
    started_at: float | None = None
    ended_at: float | None = None

    def take_counts(self, counts: Mapping[str, float]) -> None:
        """The worker's metrics of this moment; none while it does not answer."""
        if counts:
            self.processed = int(counts.get("coversumm_events_total", 0))
            self.published = int(counts["coversumm_summary_changes_total"])
            self.embedded = int(counts["coversumm_embedded_sentences_total"])
            self.dead_letters = int(counts["coversumm_dead_letters_total"])

    def take_change(self, value: bytes, now: float) -> None:
        """A `summary.changed` from the output topic."""
        body = _decode(value)
        entity = self.entities.setdefault(body.entity_id, Entity(body.entity_id))
        before = {one.sentence_id: one.text for one in entity.sentences}
        after = {one.sentence_id: one.text for one in body.sentences}
        added = tuple(one_line(after[identifier]) for identifier in body.added)
        removed = tuple(one_line(before[identifier]) for identifier in body.removed)
        self.latest.append(Change(body.entity_id, body.cause.type, added, removed))
        entity.review_count, entity.sentence_count = body.review_count, body.sentence_count
        entity.sentences, entity.changed_at = body.sentences, now
        entity.changes += 1
        self.changes += 1

    @property
    def caught_up(self) -> bool:
        """Everything that was sent is processed, and everything that was published is here."""
        return self.processed >= self.sent and self.changes >= self.published

    def in_order(self) -> list[Entity]:
        """The entities by id."""
        return sorted(self.entities.values(), key=lambda entity: entity.entity_id)

    def seconds(self, now: float) -> float:
        """From the first event sent to the last one processed, or to now."""
        if self.started_at is None:
            return 0.0
        return (now if self.ended_at is None else self.ended_at) - self.started_at

    def figures(self) -> dict[str, Any]:
        """What it came to."""
        seconds = max(self.seconds(0.0), 1e-9)
        return {
            "type": "demo.done",
            "events": self.processed,
            "seconds": round(seconds, 2),
            "events_per_second": round(self.processed / seconds, 1),
            "sentences_embedded_per_second": round(self.embedded / seconds, 1),
            "summary_changes": self.changes,
            "dead_letters": self.dead_letters,
            "entities_verified": self.verified,
            "entities": [
                {
                    "entity_id": entity.entity_id,
                    "reviews": entity.review_count,
                    "sentences": entity.sentence_count,
                    "changes": entity.changes,
                    "first_sentence": entity.first_sentence,
                }
                for entity in self.in_order()
            ],
        }


def one_line(text: str) -> str:
    """The text in one line, as every terminal shows it in the same width.

    Without control characters, which terminals obey, and without emoji and combining characters, about whose width they disagree:
    a line that is longer than it was thought to be breaks the picture.
    """
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(char if _has_sure_width(char) else " " for char in composed).split())


def _has_sure_width(char: str) -> bool:
    return char.isprintable() and unicodedata.category(char) not in ("So", "Sk", "Mn", "Me")
