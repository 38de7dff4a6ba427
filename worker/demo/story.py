"""The scene of the demo: its state, from the worker's topics and metrics, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from worker.demo.reviews import ATTRIBUTION
from worker.errors import many
from worker.events import Record
from worker.events.publishing import FACETS
from worker.published.publication import SetName, publications
from worker.view.board import Board, Entity, EntityNames, Focus, ShownChange
from worker.view.screen import Frame, change_lines
from worker.view.texts import between, one_line

PROGRAM: Final = "coversumm-worker"
LINE_SECONDS: Final = 1.0  # seconds between two lines where nothing can be redrawn


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
    """All that the demo shows."""

    k: int
    reviews: int  # number that will be sent
    facets_topic: str = ""
    page: str | None = None  # URL of the worker's page if it is served
    names: EntityNames = field(default_factory=EntityNames)
    phase: Phase = Phase.STARTING
    board: Board = field(default_factory=Board)
    facets: Board = field(default_factory=Board)  # of all stays; `board` has the summaries
    focus: Focus = field(default_factory=Focus)
    doomed: frozenset[str] = frozenset()  # reviews that are about to be taken down
    to_take_down: int = 0
    sent: int = 0
    processed: int = 0
    published: int = 0  # summary changes by the worker's metrics
    facets_published: int = 0  # messages of facets by its metrics; `facets_seen` are received
    facets_seen: int = 0
    embedded: int = 0
    dead_letters: int = 0
    overview: dict[str, Any] | None = None  # of the largest stay, in JSON
    left_out: int = 0  # reviews for which there was no time
    verified: int = 0  # entities whose stored summary equals brute force
    started_at: float | None = None
    """`time.monotonic()` of the first event; `ended_at` of the last, or of Ctrl-C."""
    ended_at: float | None = None
    next_line_at: float = 0.0
    last_line: str | None = None
    last_change: ShownChange | None = None

    def take_counts(self, counts: Mapping[str, float]) -> None:
        """Take the worker's metrics, if there are any."""
        if counts:
            self.processed = int(counts.get("coversumm_events_total", 0))
            self.published = int(counts["coversumm_summary_changes_total"])
            self.facets_published = int(counts["coversumm_facets_changes_total"])
            self.embedded = int(counts["coversumm_embedded_sentences_total"])
            self.dead_letters = int(counts["coversumm_dead_letters_total"])

    def take(self, message: Record, now: float) -> list[ShownChange]:
        """Take a message of either output topic; returns the changes of summaries."""
        if message.topic == self.facets_topic:
            for one in publications(message, kind=FACETS):
                self.facets.take_publication(one, now)
            self.facets_seen += 1
            return []
        changes = (self.board.take_publication(one, now) for one in publications(message))
        return [change for change in changes if change is not None]

    def lines(self, changes: Iterable[ShownChange], now: float) -> Iterator[str]:
        """A line a second with the newest change, and each change of a deletion."""
        if self.last_line is None:
            yield f"{PROGRAM} demo: {self._promise()}. {ATTRIBUTION}"
        if self.phase is Phase.TAKING_DOWN:
            for change in changes:
                yield from self._change_lines(change)
        state = f"{self.phase}{self.processed}{self.board.changes}"
        if now < self.next_line_at or state == self.last_line:
            return
        self.next_line_at, self.last_line = now + LINE_SECONDS, state
        if self.phase not in (Phase.ARRIVING, Phase.HURRYING):
            yield self.phase.value
            return
        yield self.counts()
        latest = self.board.latest[-1] if self.board.latest else None
        if latest is not None and latest is not self.last_change:  # only the counts are new
            self.last_change = latest
            yield from self._change_lines(latest)

    def _change_lines(self, change: ShownChange) -> Iterator[str]:
        return (f"  {line}" for line in change_lines(change, self.names))

    def frame(self, console: Console, now: float) -> Frame:
        """A stay's summary in full, the others small."""
        width = console.width
        counts = self.counts()
        done = round(self.share * width)
        head = [
            between(Text(f"{PROGRAM} demo", style="bold"), Text(counts, style="bold"), width),
            Text(self.phase.value, style="yellow"),
            Text.assemble(("━" * done, "green"), ("━" * (width - done), "bright_black")),
        ]
        if self.page is not None:
            head.insert(1, Text(f"the page: {self.page}", style="cyan"))
        if not self.board.entities:
            head += [Text(), *self._introduction(console)]
        focus = self.focus.choose(self.board, now)
        return Frame(
            head,
            self.board,
            focus,
            self.in_order(),
            self.names,
            label=ATTRIBUTION,
            doomed=self.doomed,
            facets=self.facets_of(focus),
        )

    def _introduction(self, console: Console) -> list[Text]:
        text = (
            "Real reviews of Airbnb stays go through the real worker, on an embedded Kafka broker. "
            f"It keeps {self._promise()}. New sentences flash, removed "
            "ones are struck through, each with the reason. Below them is what guests say about "
            "single subjects, such as parking or noise."
        )
        return [*Text(text).wrap(console, console.width), Text(), Text(ATTRIBUTION, style="dim")]

    def _promise(self) -> str:
        sentences = f"for each stay the {self.k} sentences closest to what most guests say"
        return f"{sentences}, exact after every review, exactly once"

    def counts(self) -> str:
        """Reviews in, changes out."""
        down = f", {self.taken_down:,} taken down" if self.taken_down else ""
        return (
            f"{many(self.arrived, 'reviews')} in{down}, {many(self.board.changes, 'changes')} out"
        )

    def facets_of(self, name: SetName | None) -> list[Entity]:
        """The facets of an entity that have a sentence, the largest first."""
        own = (
            one
            for one in self.facets.entities.values()
            if name is not None and one.name.entity_id == name.entity_id and one.sentences
        )
        return sorted(own, key=lambda one: (-one.sentence_count, one.name))

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

    def largest(self) -> str | None:
        """The id of the entity with the most sentences."""
        found = max(self.in_order(), key=lambda one: one.sentence_count, default=None)
        return None if found is None else found.name.entity_id

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
