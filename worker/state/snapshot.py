"""All rows of an entity, decoded: for `verify` and the summaries of copies.

One range scan, without cache or stream. A scan is a consistent view, so the worker may write during
it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from worker.events.publishing import OutputTopic
from worker.state import rows as formats
from worker.state.errors import CorruptRow
from worker.state.keys import (
    ENTITY,
    PUBLISHED_SETS,
    REVIEW,
    TEXTS,
    VECTORS,
    describe,
    parse_entity_key,
    sentence_id,
)
from worker.state.rows import Header, PublishedSets, ReviewRow
from worker.state.store import Rows


@dataclass(slots=True)
class Snapshot:
    """All rows of one entity, decoded; `header` is None if only deleted incarnations have rows."""

    entity: bytes
    header: Header | None = None
    published: dict[OutputTopic, PublishedSets] = field(default_factory=dict)
    reviews: dict[bytes, ReviewRow] = field(default_factory=dict)
    texts: dict[bytes, str] = field(default_factory=dict)  # by sentence id
    ids: list[bytes] = field(default_factory=list)  # in the order of `vectors`
    vectors: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 0), np.int16))
    others: Counter[int] = field(default_factory=Counter)
    """Rows of other incarnations than the live one."""

    @property
    def live_reviews(self) -> int:
        """Reviews that are not deleted, including those without sentences."""
        return sum(not review.deleted for review in self.reviews.values())


def read_snapshots(rows: Rows, dimension: int, prefix: bytes = ENTITY) -> Iterator[Snapshot]:
    """The entities whose rows start with `prefix`, one at a time, in key order."""
    snapshot: Snapshot | None = None
    matrices: list[bytes] = []
    for key, value in rows.scan(prefix):
        try:
            parts = parse_entity_key(key)
        except ValueError as error:
            raise CorruptRow(describe(key), str(error)) from error
        if snapshot is None or snapshot.entity != parts.entity:
            if snapshot is not None:
                yield _finish(snapshot, matrices, dimension)
            snapshot, matrices = Snapshot(parts.entity), []
        if parts.incarnation is None:
            snapshot.header = formats.decode_header(key, value)
        elif snapshot.header is None or parts.incarnation != snapshot.header.incarnation:
            snapshot.others[parts.incarnation] += 1
        elif parts.kind in PUBLISHED_SETS:
            topic = PUBLISHED_SETS[parts.kind]
            snapshot.published[topic] = formats.decode_published(key, topic, value)
        else:
            assert parts.review is not None
            if parts.kind == REVIEW:
                review = formats.decode_review(key, value)
                snapshot.reviews[parts.review] = review
                _add_texts(snapshot, parts.review, review.texts)
            elif parts.kind == TEXTS:
                _add_texts(snapshot, parts.review, formats.decode_text_chunk(key, value))
            elif parts.kind == VECTORS:
                ordinals, data = formats.decode_vectors(key, value, dimension)
                snapshot.ids += [sentence_id(parts.review, ordinal) for ordinal in ordinals]
                matrices.append(data)
    if snapshot is not None:
        yield _finish(snapshot, matrices, dimension)


def _add_texts(snapshot: Snapshot, review_id: bytes, texts: formats.Texts) -> None:
    for ordinal, text in texts:
        snapshot.texts[sentence_id(review_id, ordinal)] = text


def _finish(snapshot: Snapshot, matrices: list[bytes], dimension: int) -> Snapshot:
    snapshot.vectors = formats.as_matrix(matrices or [b""], dimension)
    return snapshot
