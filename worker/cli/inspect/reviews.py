"""An entity's reviews with their versions, deleted ones too, from a data directory."""

from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli import output
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.operations.reviews import StoredReview

COLUMNS = (
    Column("review"),
    Column("version", right=True),
    Column("status"),
    Column("rating", drop=2, right=True),
    Column("sentences", drop=1, right=True),
)


def show_reviews(entity: str, data_dir: Path, settings: Settings, as_json: bool) -> bool:
    """Show them all; False where the entity is unknown."""
    from dataclasses import asdict

    from worker.operations.copies import refuse_elsewhere, stored_copies
    from worker.operations.reviews import stored_reviews

    found, copies = [], []
    partitions = 0
    for part, copy in stored_copies(settings, data_dir):
        copies.append(copy)
        partitions = part.partitions
        reviews = stored_reviews(part, entity)
        found += reviews
        if reviews and copy.is_current is False:
            output.note(f"warning: partition {copy.partition} {copy.words}")
    if not found:
        refuse_elsewhere(entity, data_dir, partitions, copies)
    if as_json:
        for review in found:
            output.print_json(asdict(review))
    elif found:
        show_table(COLUMNS, map(_cells, found))
    return bool(found)


def _cells(review: "StoredReview") -> tuple[object, ...]:
    status = "deleted" if review.deleted else "live"
    return review.review_id, review.version, status, review.rating, len(review.sentences)
