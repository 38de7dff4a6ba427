"""A change in plain lines, for whatever cannot be drawn over."""

from worker.view.board import Change
from worker.view.names import Names
from worker.view.reasons import headline
from worker.view.texts import one_line


def change_lines(change: Change, names: Names) -> list[str]:
    """What happened to which entity, then a line for each sentence that left (`-`) or came (`+`)."""
    return [
        f"{names.entity(change.entity_id)}: {headline(change, names)}",
        *(f"  - {one_line(one.text)}" for one in change.removed),
        *(f"  + {one_line(one.text)}" for one in change.added),
    ]
