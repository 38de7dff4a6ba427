"""The reviews of an entity as the rows remember them, taken down ones too: `inspect --reviews`."""

from collections import defaultdict
from dataclasses import dataclass

from worker.state.ids import review_of
from worker.state.keys import header_key
from worker.state.view import Snapshot, read_snapshots
from worker.storage.snapshot import StoredPartition


@dataclass(frozen=True, slots=True)
class StoredReview:
    """A review's version and live sentences by id; a deleted one has none, its version is still what edits must beat."""

    partition: int
    review_id: str
    version: int
    deleted: bool
    rating: float | None
    sentences: dict[str, str]


def stored_reviews(part: StoredPartition, entity_id: str) -> list[StoredReview]:
    """All that are known of the entity, by id; empty where it is unknown."""
    for snapshot in read_snapshots(part.rows, part.dimension, header_key(entity_id.encode())):
        if snapshot.header is not None:
            return _reviews(part.number, snapshot)
    return []


def _reviews(partition: int, snapshot: Snapshot) -> list[StoredReview]:
    texts: dict[bytes, dict[str, str]] = defaultdict(dict)
    for identifier, text in snapshot.texts.items():
        texts[review_of(identifier)][identifier.decode()] = text
    return [
        StoredReview(
            partition, review_id.decode(), review.version, review.deleted, review.rating, texts[review_id]
        )
        for review_id, review in sorted(snapshot.reviews.items())
    ]
