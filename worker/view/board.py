"""What the output topic has told so far: entities, their summaries, what came into them and what
left, and when.

Filled from messages alone, as any consumer would. Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from worker.events import Cause, SummaryChanged, SummarySentence
from worker.view.texts import one_line

LATEST: Final = 100
ENTITIES: Final = 1000
"""So many are remembered, those that changed last."""
_decode: Final = msgspec.json.Decoder(SummaryChanged).decode


class ShownChange(NamedTuple):
    """One summary change."""

    entity_id: str
    cause: Cause
    occurred_at: str | None
    is_first: bool
    k: int
    added: tuple[SummarySentence, ...]
    """In rank order."""
    removed_ids: tuple[str, ...]
    """Of the sentences that left, in former rank order."""
    removed: tuple[SummarySentence, ...]
    """The same sentences, but for those whose text was never seen."""


class Gone(NamedTuple):
    """A sentence that left a summary, by which change, and when."""

    sentence: SummarySentence
    change: ShownChange
    at: float


class Come(NamedTuple):
    """By which change a sentence came into a summary, and when."""

    change: ShownChange
    at: float


@dataclass(slots=True)
class Entity:
    """One entity as of its last summary change."""

    entity_id: str
    review_count: int = 0
    sentence_count: int = 0
    k: int = 0
    changes: int = 0
    """Seen here, the summary it began with not counted."""
    changed_at: float = float("-inf")
    is_deleted: bool = False
    sentences: Sequence[SummarySentence] = ()
    come: dict[str, Come] = field(default_factory=dict)
    """By the ids of sentences that are in the summary and came while it was looked at."""
    gone: list[Gone] = field(default_factory=list)
    """The newest first; two summaries' worth at most."""
    latest: ShownChange | None = None

    @property
    def first_sentence(self) -> str:
        """The sentence nearest to the centroid, as it was written."""
        return self.sentences[0].text if self.sentences else ""


@dataclass(slots=True)
class Board:
    """All that was told."""

    entities: dict[str, Entity] = field(default_factory=dict)
    """The one that changed last is the last."""
    latest: deque[ShownChange] = field(default_factory=lambda: deque(maxlen=LATEST))
    changes: int = 0

    def begin_with(self, value: bytes) -> Entity:
        """Take an entity's current summary: what was published before anybody looked. Raises
        msgspec.DecodeError.
        """
        body = _decode(value)
        entity = self._touch(body.entity_id)
        _show(entity, body)
        return entity

    def take(self, value: bytes, now: float) -> ShownChange:
        """Take a `summary.changed` from the output topic. Raises msgspec.DecodeError."""
        body = _decode(value)
        entity = self._touch(body.entity_id)
        before = {one.sentence_id: one for one in entity.sentences}
        after = {one.sentence_id: one for one in body.sentences}
        change = ShownChange(
            body.entity_id,
            body.cause,
            body.occurred_at,
            body.previous_sequence is None,
            body.k,
            _known(body.added, after),
            tuple(body.removed),
            _known(body.removed, before),
        )
        come = {one.sentence_id: Come(change, now) for one in change.added}
        entity.come = {key: one for key, one in (entity.come | come).items() if key in after}
        entity.gone = [
            *(Gone(one, change, now) for one in change.removed),
            *(one for one in entity.gone if one.sentence.sentence_id not in after),
        ][: 2 * body.k]
        entity.latest, entity.changed_at = change, now
        entity.changes += 1
        _show(entity, body)
        self.latest.append(change)
        self.changes += 1
        return change

    def take_tombstone(self, entity_id: str) -> None:
        """The entity was deleted; its summary became empty before."""
        entity = self._touch(entity_id)
        entity.is_deleted, entity.sentences, entity.come = True, (), {}

    def _touch(self, entity_id: str) -> Entity:
        entity = self.entities.pop(entity_id, None) or Entity(entity_id)
        self.entities[entity_id] = entity
        if len(self.entities) > ENTITIES:
            self.entities.pop(next(iter(self.entities)))
        return entity


def _show(entity: Entity, body: SummaryChanged) -> None:
    entity.review_count, entity.sentence_count, entity.k = (
        body.review_count,
        body.sentence_count,
        body.k,
    )
    entity.sentences, entity.is_deleted = body.sentences, False


def _known(
    identifiers: Sequence[str], sentences: Mapping[str, SummarySentence]
) -> tuple[SummarySentence, ...]:
    return tuple(sentences[one] for one in identifiers if one in sentences)


@dataclass(frozen=True, slots=True)
class EntityNames:
    """Names for ids; without any, ids are names."""

    entities: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    """Of ids, not worth showing."""

    def entity(self, entity_id: str) -> str:
        """In one line."""
        return one_line(
            self.entities.get(entity_id) or entity_id.removeprefix(self.prefix)
        ) or repr(entity_id)

    def review(self, review_id: str) -> str:
        """In one line."""
        return one_line(review_id.removeprefix(self.prefix)) or repr(review_id)


REST_SECONDS: Final = 2.5


class Focus:
    """Follows the latest change, but stays with an entity for a while; or with one for good, once
    `pin`ned.
    """

    def __init__(self) -> None:
        self._pinned: str | None = None
        self._looked_at: str | None = None
        self._since = float("-inf")

    def pin(self, entity_id: str | None) -> None:
        """Look at this entity; None: follow the changes again."""
        self._pinned = entity_id

    def choose(self, board: Board, now: float) -> str | None:
        """The entity to look at now; None while nothing is known."""
        if self._pinned is not None:
            return self._pinned
        newest = (
            board.latest[-1].entity_id if board.latest else next(reversed(board.entities), None)
        )
        if newest != self._looked_at and now - self._since >= REST_SECONDS:
            self._looked_at, self._since = newest, now
        return self._looked_at
