"""Changes of an entity's summary as a page for a browser."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from worker.cli import output
from worker.cli.history.listing import Told
from worker.cli.writing import sink

if TYPE_CHECKING:
    from worker.operations.history import Step

CHANGES_ON_PAGE = 500
"""Unless the command says another number."""


def write_page(path: str, entity: str, source: str, steps: "Sequence[Step]") -> Told:
    """Write the page, if there is a step."""
    from worker.view.timeline import page

    if steps:
        with sink(path) as target:
            target.write(page(entity, source, steps).encode())
        output.note(f"{output.many(len(steps), 'changes')} of {entity} are on {path}")
    told = Told()
    for step in steps:
        told = told.and_then(step)
    return told
