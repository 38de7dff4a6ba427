"""The summaries and facets seen so far on a topic, and their latest changes.

Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from worker.events import Cause, SummaryChanged, SummarySentence
from worker.published.publication import Publication, SetName, with_changes
from worker.view.texts import one_line

LATEST: Final = 100  # changes to remember, the latest ones
ENTITIES: Final = 1000  # entities to remember, those that changed last


class ShownChange(NamedTuple):
    """A change of a summary or facet, with the sentences that came and left."""

    name: SetName
    cause: Cause
    occurred_at: str | None
    is_first: bool  # nothing was published of the entity before
    k: int
    added: tuple[SummarySentence, ...]  # in rank order
    removed_ids: tuple[str, ...]  # in former rank order
    removed: tuple[SummarySentence, ...]  # the same sentences, except those whose text is unknown

    @classmethod
    def of(
        cls, body: SummaryChanged, before: Iterable[SummarySentence], facet: str | None = None
    ) -> ShownChange:
        """The change from the sentences before, as far as they are known."""
        old = {one.sentence_id: one for one in before}
        new = {one.sentence_id: one for one in body.sentences}
        return cls(
            SetName(body.entity_id, facet),
            body.cause,
            body.occurred_at,
            body.previous_sequence is None,
            body.k,
            tuple(new[one] for one in body.added if one in new),
            tuple(body.removed),
            tuple(old[one] for one in body.removed if one in old),
        )


class Gone(NamedTuple):
    """A sentence that left a summary at a time."""

    sentence: SummarySentence
    change: ShownChange
    at: float


class Come(NamedTuple):
    """The change that brought a sentence, and its time."""

    change: ShownChange
    at: float


@dataclass(slots=True)
class Entity:
    """One entity's summary, or a facet of it, as of its last change."""

    name: SetName
    review_count: int = 0
    sentence_count: int = 0
    mentions: int | None = None  # of a facet with words: reviews that mention it
    k: int = 0
    changes: int = 0  # seen here, without the summary it began with
    changed_at: float = float("-inf")
    is_deleted: bool = False
    sentences: Sequence[SummarySentence] = ()
    come: dict[str, Come] = field(default_factory=dict)
    """By id, the sentences of the summary that came while the board was filled."""
    gone: list[Gone] = field(default_factory=list)  # the newest first; at most two summaries' worth
    latest: ShownChange | None = None

    @property
    def first_sentence(self) -> str:
        """The sentence nearest to the centroid."""
        return self.sentences[0].text if self.sentences else ""

    def show(self, body: SummaryChanged) -> None:
        """Take counts and sentences of a summary."""
        self.review_count, self.sentence_count = body.review_count, body.sentence_count
        self.k, self.sentences, self.is_deleted = body.k, body.sentences, False


@dataclass(slots=True)
class Board:
    """All summaries and facets seen, the one that changed last at the end."""

    entities: dict[SetName, Entity] = field(default_factory=dict)
    latest: deque[ShownChange] = field(default_factory=lambda: deque(maxlen=LATEST))
    changes: int = 0

    def begin_with(self, body: SummaryChanged, facet: str | None = None) -> Entity:
        """Take a summary or facet as it was at the start."""
        entity = self._touch(SetName(body.entity_id, facet))
        entity.show(body)
        return entity

    def take_publication(self, found: Publication, now: float) -> ShownChange | None:
        """Take what was published; None if it changes no set, as a tombstone does not: the change
        before it has emptied the summary.
        """
        if found.body is None:
            self.take_tombstone(found.entity_id)
            return None
        change = None
        if found.is_changed and not self._is_known(found.name, found.body):
            change = self.take(found.body, now, found.facet)
        else:
            self.begin_with(found.body, found.facet)
        self.entities[found.name].mentions = found.mentions
        return change

    def _is_known(self, name: SetName, body: SummaryChanged) -> bool:
        """Whether a facet has the set it had: the message changes another language of its name."""
        known = self.entities.get(name)
        if known is None or name.facet is None:
            return False
        change = with_changes(body, known.sentences)
        return not change.added and not change.removed

    def take(self, body: SummaryChanged, now: float, facet: str | None = None) -> ShownChange:
        """Take a change of a summary or facet."""
        name = SetName(body.entity_id, facet)
        if facet is not None:
            known = self.entities.get(name)
            body = with_changes(body, None if known is None else known.sentences)
        entity = self._touch(name)
        change = ShownChange.of(body, entity.sentences, facet)
        present = {one.sentence_id for one in body.sentences}
        come = {one.sentence_id: Come(change, now) for one in change.added}
        entity.come = {key: one for key, one in (entity.come | come).items() if key in present}
        entity.gone = [
            *(Gone(one, change, now) for one in change.removed),
            *(one for one in entity.gone if one.sentence.sentence_id not in present),
        ][: 2 * body.k]
        entity.latest, entity.changed_at = change, now
        entity.changes += 1
        entity.show(body)
        self.latest.append(change)
        self.changes += 1
        return change

    def take_tombstone(self, entity_id: str) -> None:
        """The entity was deleted; a change before it has emptied the summary."""
        of_it = [name for name in self.entities if name.entity_id == entity_id]
        for name in of_it or [SetName(entity_id)]:
            entity = self._touch(name)
            entity.is_deleted, entity.sentences, entity.come = True, (), {}

    def _touch(self, name: SetName) -> Entity:
        entity = self.entities.pop(name, None) or Entity(name)
        self.entities[name] = entity
        if len(self.entities) > ENTITIES:
            self.entities.pop(next(iter(self.entities)))
        return entity


@dataclass(frozen=True, slots=True)
class EntityNames:
    """Names to show for ids, in one line each; without a name the id without `prefix`."""

    entities: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    def of(self, name: SetName) -> str:
        """The name of an entity, with that of a facet."""
        entity_id, facet = name
        shown = self.entities.get(entity_id) or entity_id.removeprefix(self.prefix)
        shown = one_line(shown) or repr(entity_id)
        return shown if facet is None else f"{shown}, {one_line(facet)}"

    def review(self, review_id: str) -> str:
        """The name of a review."""
        return one_line(review_id.removeprefix(self.prefix)) or repr(review_id)


REST_SECONDS: Final = 2.5  # how long the focus stays with an entity while others change


class Focus:
    """Chooses what to show in full: the summary or facet that changed last, or a pinned one."""

    def __init__(self) -> None:
        self._pinned: SetName | None = None
        self._chosen: SetName | None = None
        self._since = float("-inf")

    def pin(self, name: SetName | None) -> None:
        """Stay with this one; None: follow the changes again."""
        self._pinned = name

    def choose(self, board: Board, now: float) -> SetName | None:
        """What to show now; None while the board is empty."""
        if self._pinned is not None:
            return self._pinned
        newest = board.latest[-1].name if board.latest else next(reversed(board.entities), None)
        if newest != self._chosen and now - self._since >= REST_SECONDS:
            self._chosen, self._since = newest, now
        return self._chosen
