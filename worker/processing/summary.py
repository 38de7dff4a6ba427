"""An entity's summary as people see it, out of memory or by its rows: the same view that `worker.state.read_view` makes.

That one sorts all sentences, so that it can be held against the stream's algorithm. Here that algorithm reads them, some thousand
at a time: memory does not grow with the entity, and who looks at rows can be stopped at each of them.
"""

from typing import NamedTuple

from worker.coversumm import EntityCore, Ranking
from worker.coversumm.index.flat import FlatIndex
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, Member
from worker.state import Rows, SummaryView
from worker.state.entity import EntityRows, read_header
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


def read_summary(rows: Rows, entity_id: str, config: ProcessorConfig) -> SummaryView | None:
    """The entity by its rows alone, None where it is unknown. Reads all of its vectors, twice. Raises CorruptRow."""
    header = read_header(rows, entity_id.encode())
    if header is None:
        return None
    dimension = config.limits.dimension
    entity = EntityRows(rows, entity_id.encode(), header.incarnation, dimension)
    published = entity.published()
    index = FlatIndex(dimension, entity.blocks)
    ranking = EntityCore.load(config.k, dimension, index, distinct=config.distinct).ranking()
    return SummaryView(
        entity_id,
        header.incarnation,
        header.reviews,
        header.sentences,
        None if published is None else published.sequence,
        view_sentences(ranking, map(entity.text_and_rating, ranking.ids)),
    )
