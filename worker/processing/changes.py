"""The planned changes of a micro-batch to an entity; `plan` makes them, `publish` ranks them."""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.events import (
    EntityDeleted,
    Event,
    Ignored,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
)
from worker.events.summary import LastChange
from worker.processing.entity_cache import CachedEntity, EntityKey
from worker.state.entity import Review, Sentence
from worker.state.rows import Header

Outcome = Ignored | Rejected | None  # of a record; None: it is applied


@dataclass(slots=True)
class PlannedStep:
    """One event that changes live sentences or deletes a review, and the counts after it."""

    index: int  # of the record in the micro-batch
    event: Event
    removed: Sequence[Sentence]
    added: Sequence[Sentence]
    rating: float | None
    review_count: int
    sentence_count: int


class EntityChanges:
    """The changes of a micro-batch to one incarnation of an entity."""

    __slots__ = (
        "_unread",
        "end",
        "entity",
        "is_new",
        "kept",
        "key",
        "review_count",
        "reviews",
        "sentence_count",
        "set_changes",
        "steps",
        "stored_header",
        "stored_sequence",
    )

    def __init__(self, key: EntityKey, entity: CachedEntity, *, is_new: bool) -> None:
        self.key = key
        self.entity = entity
        self.is_new = is_new  # the entity has no stored rows
        self.stored_header = Header(
            entity.review_count, entity.sentence_count, entity.rows.incarnation
        )
        self.stored_sequence = entity.sequence
        self.review_count = entity.review_count
        self.sentence_count = entity.sentence_count
        self.reviews: dict[bytes, Review] = {}  # the written reviews in their last state
        self.steps: list[PlannedStep] = []
        self.end: tuple[int, EntityDeleted] | None = None  # its deletion, with the index
        self.set_changes = 0  # how often its set changed
        self.kept: LastChange | None = None  # a last, not empty set, published later
        self._unread: set[bytes] = set()

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
    ) -> None:
        """Record the reviews that an event wrote and the sentences it removed and added."""
        self.reviews |= reviews
        self.sentence_count += len(added) - len(removed)
        # A deleted review may still be quoted by a summary that its last edit did not publish.
        if removed or added or isinstance(event, ReviewDeleted):
            rating = event.rating if isinstance(event, ReviewUpserted) else None
            self.steps.append(
                PlannedStep(
                    index, event, removed, added, rating, self.review_count, self.sentence_count
                )
            )
