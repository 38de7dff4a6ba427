"""An entity's reviews with their versions, deleted ones too, from a data directory."""

from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli import output
from worker.cli.tables import Column, show_table

if TYPE_CHECKING:
    from worker.operations.reviews import StoredReview

COLUMNS = (
    Column("review"),
    Column("version", right=True),
    Column("status"),
    Column("rating", drop=2, right=True),
    Column("sentences", drop=1, right=True),
)


def show_reviews(entity: str, data_dir: Path, as_json: bool) -> bool:
    """Show them all; False where the entity is unknown."""
    from dataclasses import asdict

    from worker.operations.reviews import stored_reviews
    from worker.storage.snapshot import some_databases, stored_partition

    found = []
    for number, path in some_databases(data_dir).items():
        with stored_partition(number, path) as part:
            found += [] if part is None else stored_reviews(part, entity)
    if as_json:
        for review in found:
            output.print_json(asdict(review))
    elif found:
        show_table(COLUMNS, map(_cells, found))
    return bool(found)


def _cells(review: "StoredReview") -> tuple[object, ...]:
    status = "deleted" if review.deleted else "live"
    return review.review_id, review.version, status, review.rating, len(review.sentences)
