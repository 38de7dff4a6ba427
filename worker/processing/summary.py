"""An entity's summary out of memory: the same view that `worker.state.read_view` makes of its rows, without reading them."""

from worker.processing.entity_cache import CachedEntity
from worker.state import SummaryView
from worker.state.view import view_sentences


def view_of(entity: CachedEntity) -> SummaryView:
    """The committed state of an entity whose core is loaded. Raises CorruptRow."""
    ranking = entity.core.ranking()
    members = map(entity.member, ranking.ids)
    return SummaryView(
        entity.entity_id,
        entity.rows.incarnation,
        entity.review_count,
        entity.sentence_count,
        entity.sequence,
        view_sentences(ranking, ((member.text, member.rating) for member in members)),
        reservoir=entity.core.reservoir_size,
        refills=entity.core.counters.refilled,
    )
