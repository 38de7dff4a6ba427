"""The planned changes of a micro-batch to an entity; `plan` makes them, `publish` ranks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from worker.events import EntityDeleted, Event, Ignored, RatingCounts, Rejected, ReviewDeleted
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.events.ratings import NO_RATINGS
from worker.facets.newest import Item, NewestReviews, recency
from worker.processing.entities import CachedEntity, EntityKey
from worker.processing.facets import EntityFacets, ReviewMove
from worker.state.entity import Review, Sentence
from worker.state.rows import Header, LastChange, date_of

Outcome = Ignored | Rejected | None  # of a record; None: it is applied


class EntityCounts(NamedTuple):
    """Counts of an entity: live reviews, live sentences, ratings of these reviews."""

    reviews: int = 0
    sentences: int = 0
    ratings: RatingCounts = NO_RATINGS


@dataclass(slots=True)
class PlannedStep:
    """One event that changes live sentences or facets, or deletes a review, and the counts after
    it; or, of one record, all events of the entity since its first such event.
    """

    index: int  # of the record in the micro-batch
    event: Event  # the last one
    removed: Sequence[Sentence]
    added: Sequence[Sentence]
    counts: EntityCounts
    moves: Sequence[ReviewMove] = ()  # of reviews in and out of facets
    earlier: Sequence[Event] = ()  # of the record, before the last one

    @property
    def events(self) -> Sequence[Event]:
        """All of them."""
        return (*self.earlier, self.event)


class EntityChanges:
    """The changes of a micro-batch to one incarnation of an entity."""

    __slots__ = (
        "_unread",
        "changed",
        "end",
        "entity",
        "is_new",
        "key",
        "last",
        "newest",
        "ratings",
        "review_count",
        "reviews",
        "sentence_count",
        "steps",
        "stored_header",
        "stored_sequence",
    )

    def __init__(self, key: EntityKey, entity: CachedEntity, *, is_new: bool) -> None:
        self.key = key
        self.entity = entity
        self.is_new = is_new  # the entity has no stored rows
        self.stored_header = Header(
            entity.review_count, entity.sentence_count, entity.rows.incarnation, entity.ratings
        )
        self.stored_sequence = entity.summary.sequence
        self.review_count = entity.review_count
        self.sentence_count = entity.sentence_count
        self.ratings = entity.ratings
        self.reviews: dict[bytes, Review] = {}  # the written reviews in their last state
        self.steps: list[PlannedStep] = []
        self.end: tuple[int, EntityDeleted] | None = None  # its deletion, with the index
        self.changed = {SUMMARIES: 0, FACETS: 0}  # events that changed sets of this topic
        self.last: dict[OutputTopic, LastChange] = {}  # sets that are not empty, published later
        self.newest: NewestReviews | None = None  # after the events so far, if they changed it
        self._unread: set[bytes] = set()

    def copy(self) -> EntityChanges:
        """The changes so far, which later events do not alter."""
        other = EntityChanges(self.key, self.entity, is_new=self.is_new)
        other.review_count, other.sentence_count = self.review_count, self.sentence_count
        other.ratings, other.end, other._unread = self.ratings, self.end, self._unread
        other.reviews, other.steps = self.reviews.copy(), self.steps.copy()
        other.newest = None if self.newest is None else self.newest.copy()
        return other

    def join_steps(self) -> None:
        """Make those of each record one step, which publishes once."""
        if len({step.index for step in self.steps}) < len(self.steps):
            of_records = groupby(self.steps, attrgetter("index"))
            self.steps = [_joined(list(steps)) for _, steps in of_records]

    def review(self, review_id: bytes) -> Review | None:
        """The review after the events so far; `live_sentences` loads vectors of a stored one."""
        review = self.reviews.get(review_id)
        if review is None and not self.is_new:
            review = self.entity.rows.review(review_id)
            if review is not None and review.sentences:
                self._unread.add(review_id)
        return review

    def live_sentences(self, review_id: bytes, review: Review | None) -> Sequence[Sentence]:
        """The review's sentences with their vectors, or with vectors still to be embedded."""
        if review is None:
            return ()
        if review_id in self._unread:
            self._unread.remove(review_id)
            self.entity.rows.load_vectors(review_id, review)
        return review.sentences

    def write(
        self,
        index: int,
        event: Event,
        reviews: dict[bytes, Review],
        removed: Sequence[Sentence],
        added: Sequence[Sentence],
        before: Mapping[bytes, Review | None],
    ) -> None:
        """Record the reviews that an event wrote (`before`: earlier), and its sentences."""
        moves = self._moves(reviews, before)
        self.reviews |= reviews
        self.sentence_count += len(added) - len(removed)
        is_later = bool(self.steps) and self.steps[-1].index == index
        # A deleted review may still be quoted by a summary that its last edit did not publish.
        if removed or added or moves or is_later or isinstance(event, ReviewDeleted):
            counts = EntityCounts(self.review_count, self.sentence_count, self.ratings)
            self.steps.append(PlannedStep(index, event, removed, added, counts, moves))

    # -- facets

    def _moves(
        self, reviews: Mapping[bytes, Review], before: Mapping[bytes, Review | None]
    ) -> list[ReviewMove]:
        """The moves of reviews in and out of facets that an event causes."""
        facets = self.entity.facets
        if facets is None:
            return []
        was, now = self._recent_bits(facets, reviews, before)
        recent, review_bits = facets.criteria.recent_bits, facets.criteria.review_bits

        def move(name: bytes, review: Review, bits: int, *, is_arriving: bool) -> ReviewMove:
            bits &= review_bits(review.details, review.language)
            return ReviewMove(name, review, bits, is_arriving)

        moves = [
            move(name, review, ~recent | was.get(name, 0), is_arriving=False)
            for name, review in _live(before)
        ]
        for name in (was.keys() | now.keys()) - reviews.keys():
            left, joined = was.get(name, 0), now.get(name, 0)
            if left != joined:
                other = self.review(name)
                self.live_sentences(name, other)
                if other is not None:
                    moves.append(move(name, other, left & ~joined, is_arriving=False))
                    moves.append(move(name, other, joined & ~left, is_arriving=True))
        moves += [
            move(name, review, ~recent | now.get(name, 0), is_arriving=True)
            for name, review in _live(reviews)
        ]
        return [moved for moved in moves if moved.review.sentences and moved.bits]

    def _recent_bits(
        self,
        facets: EntityFacets,
        reviews: Mapping[bytes, Review],
        before: Mapping[bytes, Review | None],
    ) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """The facets of the newest reviews by review: those it was in, and is in after these
        changes: of these reviews, and of those between the two ends, which alone move.
        """
        was: dict[bytes, int] = {}
        now: dict[bytes, int] = {}
        recent = facets.criteria.recent
        if not recent:
            return was, now
        removed, added = _items(before), _items(reviews)
        newest = facets.newest.copy() if self.newest is None else self.newest
        ends = [newest.end(facet.newest, facet.within_days) for facet in recent]
        self.newest = newest = self._updated(newest, reviews, before)
        for facet, old in zip(recent, ends, strict=True):
            new = newest.end(facet.newest, facet.within_days)
            others = [item for item in newest.between(old, new) if item[1] not in reviews]
            for bits, end, changed in ((was, old, removed), (now, new, added)):
                for item in (*others, *changed):
                    if item < end:
                        bits[item[1]] = bits.get(item[1], 0) | facet.bit
        return was, now

    def _updated(
        self,
        newest: NewestReviews,
        reviews: Mapping[bytes, Review],
        before: Mapping[bytes, Review | None],
    ) -> NewestReviews:
        """The newest reviews after these changes; reads all reviews if too few are known."""
        for name, review in _live(before):
            newest.remove(name, review.date)
        if not newest.is_short:
            for name, review in _live(reviews):
                newest.add(name, review.date)
            return newest
        written = self.reviews | dict(reviews)
        live = [(name, review.date) for name, review in _live(written)]
        if not self.is_new:
            live += [
                (name, date_of(row.details, row.is_future))
                for name, row in self.entity.rows.review_facts()
                if not row.deleted and name not in written
            ]
        return NewestReviews(newest.wanted, live)


def _joined(steps: Sequence[PlannedStep]) -> PlannedStep:
    """The steps of one record as one. A sentence that one adds and a later one removes is in
    neither.
    """
    removed: dict[bytes, Sentence] = {}
    added: dict[bytes, Sentence] = {}
    for step in steps:
        for sentence in step.removed:
            if added.pop(sentence.id, None) is None:
                removed[sentence.id] = sentence
        added |= {sentence.id: sentence for sentence in step.added}
    *earlier, last = steps
    return replace(
        last,
        removed=list(removed.values()),
        added=list(added.values()),
        moves=[move for step in steps for move in step.moves],
        earlier=[step.event for step in earlier],
    )


def _items(reviews: Mapping[bytes, Review | None]) -> list[Item]:
    """The live reviews as items of the newest."""
    return [(recency(review.date), name) for name, review in _live(reviews)]


def _live(reviews: Mapping[bytes, Review | None]) -> list[tuple[bytes, Review]]:
    """The live reviews, by name."""
    found = ((name, review) for name, review in reviews.items() if review is not None)
    return [(name, review) for name, review in found if not review.deleted]
