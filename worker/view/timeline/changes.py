"""One step as a change of the kind that `worker.view.reasons` has words for."""

from worker.published.history import HistoryStep
from worker.view.board import ShownChange


def change_of(step: HistoryStep) -> ShownChange | None:
    """None for a tombstone."""
    body = step.publication.body
    if body is None:
        return None
    known = step.before.sentences if step.before is not None and not step.incomplete else []
    after = {one.sentence_id: one for one in body.sentences}
    before = {one.sentence_id: one for one in known}
    return ShownChange(
        body.entity_id,
        body.cause,
        body.occurred_at,
        body.previous_sequence is None,
        body.k,
        tuple(after[one] for one in body.added if one in after),
        tuple(body.removed),
        tuple(before[one] for one in body.removed if one in before),
    )
