"""The state of the demo: from the worker's topics and metrics, for `display`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from worker.events import Record
from worker.published.publication import SetName, publications
from worker.view import Board, Entity, EntityNames, Focus, ShownChange, one_line


class Phase(Enum):
    """The scenes of the demo, with the text shown for each."""

    STARTING = "The worker is starting: it loads its language model and joins its group."
    ARRIVING = "Guests' reviews arrive, slowly at first, as events on Kafka."
    HURRYING = "Faster: the more is known about a stay, the fewer reviews change its summary."
    TAKING_DOWN = "Now some reviews are taken down: what they say must leave the summary."
    SERVING = "All of it is in. The page stays up until Ctrl-C."
    VERIFYING = "Comparing every stored summary with brute force over all sentences."


@dataclass(slots=True)
class Story:
    """All that the demo shows.

    Attributes:
        reviews: number that will be sent.
        page: URL of the worker's page if it is served.
        left_out: reviews that are not sent for lack of time.
        doomed: reviews that are about to be taken down.
        facets: the facets of all stays; `board` has the summaries.
        published: summary changes by the worker's metrics.
        facets_published: messages of facets by the worker's metrics; `facets_seen` those received.
        verified: entities whose stored summary equals brute force.
        started_at: `time.monotonic()` of the first event; `ended_at` of the last, or of Ctrl-C.
    """

    k: int
    reviews: int
    page: str | None = None
    left_out: int = 0
    names: EntityNames = field(default_factory=EntityNames)
    phase: Phase = Phase.STARTING
    board: Board = field(default_factory=Board)
    facets: Board = field(default_factory=Board)
    focus: Focus = field(default_factory=Focus)
    doomed: frozenset[str] = frozenset()
    to_take_down: int = 0
    sent: int = 0
    processed: int = 0
    published: int = 0
    facets_published: int = 0
    facets_seen: int = 0
    embedded: int = 0
    dead_letters: int = 0
    verified: int = 0
    started_at: float | None = None
    ended_at: float | None = None

    def take_counts(self, counts: Mapping[str, float]) -> None:
        """Take the worker's metrics, if there are any."""
        if counts:
            self.processed = int(counts.get("coversumm_events_total", 0))
            self.published = int(counts["coversumm_summary_changes_total"])
            self.facets_published = int(counts["coversumm_facets_changes_total"])
            self.embedded = int(counts["coversumm_embedded_sentences_total"])
            self.dead_letters = int(counts["coversumm_dead_letters_total"])

    def take_change(self, message: Record, now: float) -> ShownChange | None:
        """Take a `summary.changed` from the output topic."""
        (found,) = publications(message)
        return self.board.take_publication(found, now)

    def take_facets(self, message: Record, now: float) -> None:
        """Take a `facets.changed` from the topic of facets."""
        for one in publications(message, of_facets=True):
            self.facets.take_publication(one, now)
        self.facets_seen += 1

    def facets_of(self, name: SetName | None) -> list[Entity]:
        """The facets of an entity that have a sentence, the largest first."""
        own = (
            one
            for one in self.facets.entities.values()
            if name is not None and one.name.entity_id == name.entity_id and one.sentences
        )
        return sorted(own, key=lambda one: (-one.sentence_count, one.name))

    def leave_out(self, reviews: int) -> None:
        """Subtract reviews that will not be sent."""
        self.reviews -= reviews
        self.left_out += reviews

    @property
    def caught_up(self) -> bool:
        """Whether all sent events are processed and all published changes received."""
        are_seen = (
            self.board.changes >= self.published and self.facets_seen >= self.facets_published
        )
        return self.processed >= self.sent and are_seen

    @property
    def arrived(self) -> int:
        """Processed reviews."""
        return min(self.processed, self.reviews)

    @property
    def taken_down(self) -> int:
        """Processed deletions."""
        return max(self.processed - self.reviews, 0)

    @property
    def share(self) -> float:
        """The share of all events that is processed, from 0 to 1."""
        return self.processed / max(self.reviews + self.to_take_down, 1)

    def in_order(self) -> list[Entity]:
        """The entities by name."""
        entities = self.board.entities.values()
        return sorted(entities, key=lambda one: (self.names.of(one.name), one.name))

    def seconds(self) -> float:
        """Seconds from the first event sent to the end; 0 before the end."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at

    def figures(self) -> dict[str, Any]:
        """The figures of the last JSON line."""
        seconds = max(self.seconds(), 1e-9)
        return {
            "type": "demo.done",
            "events": self.processed,
            "seconds": round(seconds, 2),
            "events_per_second": round(self.processed / seconds, 1),
            "sentences_embedded_per_second": round(self.embedded / seconds, 1),
            "summary_changes": self.board.changes,
            "facets_changes": self.facets_seen,
            "dead_letters": self.dead_letters,
            "entities_verified": self.verified,
            "entities": [
                {
                    "entity_id": entity.name.entity_id,
                    "reviews": entity.review_count,
                    "sentences": entity.sentence_count,
                    "changes": entity.changes,
                    "first_sentence": one_line(entity.first_sentence),
                }
                for entity in sorted(self.board.entities.values(), key=lambda one: one.name)
            ],
        }
