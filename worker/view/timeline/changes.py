"""What a step of a history changed, as the words beside it need it."""

from worker.published.history import HistoryStep
from worker.view.board import ShownChange


def change_of(step: HistoryStep) -> ShownChange | None:
    """None for a tombstone."""
    body = step.publication.body
    return None if body is None else ShownChange.of(body, step.known_before)
