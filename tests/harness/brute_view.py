"""The summary of an entity by its rows and brute force, independent of the worker's own reading."""

from worker.coversumm import brute_force
from worker.events.publishing import SUMMARIES
from worker.processing.entity_view import SummaryView, view_sentences
from worker.state.entity import EntityRows
from worker.state.keys import header_key
from worker.state.snapshot import read_snapshots
from worker.state.store import Rows


def brute_view(
    rows: Rows,
    entity_id: str,
    *,
    dimension: int,
    k: int,
    distinct: bool = False,
    by_text: bool = False,
) -> SummaryView | None:
    """None if there is no such entity. Without a place and what only memory has."""
    for found in read_snapshots(rows, dimension, header_key(entity_id.encode())):
        if found.header is not None:
            ranking = brute_force(found.ids, found.vectors, k, distinct=distinct, by_text=by_text)
            entity = EntityRows(rows, found.entity, found.header.incarnation, dimension)
            return SummaryView(
                entity_id,
                found.header.incarnation,
                found.header.reviews,
                found.header.sentences,
                found.header.ratings.ratings(),
                None if SUMMARIES not in found.published else found.published[SUMMARIES].sequence,
                view_sentences(ranking, map(entity.text_and_details, ranking.ids)),
            )
    return None
