"""The entities that were published, what changed last, and why.

A reason says what a change and the set before it prove. With `COVERSUMM_EMIT=coalesced`, or if a
record has several events, a change is the sum of several, and its cause is the last one. Then
"pushes out" and "entered" may also be the effect of an earlier one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

from worker.errors import many
from worker.events import Record, SummaryChanged, SummarySentence
from worker.events.publishing import SUMMARIES, OutputTopic
from worker.published.publication import Publication, SetName, publications, with_changes
from worker.view.texts import one_line

ENTITIES: Final = 1000  # entities to remember, those that changed last
LATEST: Final = 50  # changes to remember


class ShownChange(NamedTuple):
    """A change of a summary or facet."""

    name: SetName
    body: SummaryChanged  # `added` and `removed` also for a facet
    removed: tuple[SummarySentence, ...]  # those of `body.removed` whose text is known

    @property
    def added(self) -> list[SummarySentence]:
        """The sentences that came, in rank order."""
        return [quote for quote in self.body.sentences if quote.sentence_id in self.body.added]


@dataclass(slots=True)
class Entity:
    """The summary and facets of an entity as of its last messages."""

    entity_id: str
    sets: dict[str | None, Publication] = field(default_factory=dict)
    """By facet, the largest first; None: the summary."""
    changes: int = 0

    @property
    def summary(self) -> SummaryChanged | None:
        """The summary, if it is known."""
        return self.sets[None].body if None in self.sets else None


@dataclass(slots=True)
class Board:
    """The entities seen so far, and the latest changes of summaries, or of facets."""

    kind: OutputTopic = SUMMARIES  # the changes that are shown
    entities: dict[str, Entity] = field(default_factory=dict)
    """By id, the one that changed last at the end."""
    latest: deque[ShownChange] = field(default_factory=lambda: deque(maxlen=LATEST))
    """The newest first."""
    changes: int = 0

    def take(
        self, message: Record, kind: OutputTopic, *, is_change: bool = True
    ) -> list[ShownChange]:
        """Take a message of this kind; returns its changes if they are shown.

        `is_change`: False for what was published before. Raises SetupError for another message.
        """
        published = publications(message, kind=kind)
        if not published or published[0].body is None:
            for tombstone in published:  # the change before it has emptied the sets
                self.entities.pop(tombstone.entity_id, None)
            return []
        entity = self._touch(published[0].entity_id)
        before = entity.sets
        entity.sets = {
            facet: other
            for facet, other in before.items()
            if (facet is None) is not (kind is SUMMARIES)
        } | {change.facet: change for change in published}
        if not is_change or kind is not self.kind:
            return []
        compared = (
            _change(change, before.get(change.facet)) for change in published if change.is_changed
        )
        changes = [change for change in compared if change is not None]
        self.latest.extendleft(reversed(changes))
        self.changes += len(changes)
        entity.changes += len(changes)
        return changes

    def _touch(self, entity_id: str) -> Entity:
        entity = self.entities.pop(entity_id, None) or Entity(entity_id)
        self.entities[entity_id] = entity
        if len(self.entities) > ENTITIES:
            self.entities.pop(next(iter(self.entities)))
        return entity


def _change(published: Publication, before: Publication | None) -> ShownChange | None:
    """The changes since `before`. None if a facet has the sentences it had: its message changes
    mentions, or another language of its name.
    """
    body = published.body
    assert body is not None
    old = None if before is None or before.body is None else before.body.sentences
    if published.facet is not None:
        body = with_changes(body, old)
        if old is not None and not body.added and not body.removed:
            return None
    texts = {sentence.sentence_id: sentence for sentence in old or ()}
    removed = tuple(texts[identifier] for identifier in body.removed if identifier in texts)
    return ShownChange(published.name, body, removed)


def shown_name(name: SetName) -> str:
    """The id of an entity, with the name of a facet, in one line that is safe to show."""
    shown = one_line(name.entity_id) or repr(name.entity_id)
    return shown if name.facet is None else f"{shown}, {one_line(name.facet)}"


def headline(change: ShownChange) -> str:
    """One sentence: what happened, and what it did to the summary or facet."""
    body, noun = change.body, "summary" if change.name.facet is None else "facet"
    if not (body.added or body.removed):
        return f"{body.cause.type}: what came and left is not known here"
    left = f"{many(len(body.removed), 'sentences')} left the {noun}"
    match body.cause.type:
        case "review.upserted":
            return f"{_review(body)} {_after_upsert(change, left, noun)}"
        case "review.deleted":
            return f"{_review(body)} was taken down{_after_deletion(change, left)}"
        case "sentences.deleted":
            return f"single sentences were taken down: {left}{_entered(change)}"
        case "entity.deleted":
            return "entity deleted: nothing is left to summarize"
        case other:
            return f"{other} changed the {noun}"


def _after_upsert(change: ShownChange, left: str, noun: str) -> str:
    body = change.body
    others = sum(sentence.review_id != body.cause.review_id for sentence in change.added)
    edited = _of_cause(change)
    if edited:
        entered = ", another sentence entered" if others else ""
        return f"was edited: {many(edited, 'old sentences')} left the {noun}{entered}"
    if not change.added:  # the newest reviews: the oldest of them made room
        return f"came in: {left}"
    if body.previous_sequence is None:
        return f"came in: the first sentences of the {noun}"
    if others == len(change.added):
        return "came in and shifted the average: another sentence is closer to it now"
    if not body.removed:
        return f"came in: the {noun} still has room for what it says"
    return "came in: it is closer to what most say than what it pushes out"


def _after_deletion(change: ShownChange, left: str) -> str:
    of_cause = _of_cause(change)
    if of_cause:
        what = "its sentence is gone" if of_cause == 1 else "its sentences are gone"
        return f": {what}{_entered(change)}"
    if change.added:
        return ", which shifted the average: another sentence is closer to it now"
    return f": {left}"


def _entered(change: ShownChange) -> str:
    entered = len(change.added)
    return "" if not entered else ", this one entered" if entered == 1 else f", {entered} entered"


def _of_cause(change: ShownChange) -> int:
    """The number of removed sentences of the cause's review: ids are `review_id#number`."""
    review_id = change.body.cause.review_id
    return sum(identifier.rpartition("#")[0] == review_id for identifier in change.body.removed)


def _review(body: SummaryChanged) -> str:
    review = f"review {one_line(body.cause.review_id or '?')}"
    try:
        day = date.fromisoformat((body.occurred_at or "")[:10])
    except ValueError:
        return review
    return f"{review} ({day.day} {day:%b} {day.year})"


def change_lines(*changes: ShownChange) -> list[str]:
    """For each a headline, then a line for each sentence that left (`-`) or came (`+`)."""
    lines: list[str] = []
    for change in changes:
        lines.append(f"{shown_name(change.name)}: {headline(change)}")
        lines += (f"  - {one_line(sentence.text)}" for sentence in change.removed)
        lines += (f"  + {one_line(sentence.text)}" for sentence in change.added)
    return lines
