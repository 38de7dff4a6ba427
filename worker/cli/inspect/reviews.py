"""An entity's reviews with their versions, deleted ones too, from a data directory."""

from pathlib import Path

from worker.cli import output


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
        from rich.table import Table

        table = Table("review", "version", "status", "rating", "sentences")
        for review in found:
            status = "deleted" if review.deleted else "live"
            cells = (review.review_id, review.version, status, review.rating, len(review.sentences))
            table.add_row(*map(output.cell, cells))
        output.console().print(table)
    return bool(found)
