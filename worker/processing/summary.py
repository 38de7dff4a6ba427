"""An entity's summary out of memory: the same view that `worker.state.read_view` makes of its rows, without reading them."""

from typing import NamedTuple

from worker.coversumm import Ranking
from worker.processing.entity_cache import CachedEntity, Member
from worker.state import SummaryView
from worker.state.view import view_sentences


class Standing(NamedTuple):
    """An entity at one moment: all that a view of it needs, and nothing that the entity changes later."""

    entity_id: str
    incarnation: int
    review_count: int
    sentence_count: int
    sequence: int | None
    ranking: Ranking
    members: tuple[Member, ...]
    reservoir: int
    refills: int

    def view(self) -> SummaryView:
        """What people see of it."""
        return SummaryView(
            self.entity_id,
            self.incarnation,
            self.review_count,
            self.sentence_count,
            self.sequence,
            view_sentences(self.ranking, ((member.text, member.rating) for member in self.members)),
            reservoir=self.reservoir,
            refills=self.refills,
        )


def standing_of(entity: CachedEntity) -> Standing | None:
    """The entity as it is now; None where its rows would have to be searched for that. Raises CorruptRow."""
    ranking = entity.core.look() if entity.is_loaded else None
    if ranking is None:
        return None
    return Standing(
        entity.entity_id,
        entity.rows.incarnation,
        entity.review_count,
        entity.sentence_count,
        entity.sequence,
        ranking,
        tuple([entity.member(identifier) for identifier in ranking.ids]),
        entity.core.reservoir_size,
        entity.core.counters.refilled,
    )
