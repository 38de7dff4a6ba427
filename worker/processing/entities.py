"""The entities of the held partitions, from memory or from their rows."""

from collections.abc import Iterable

from worker.coversumm import EntityCore
from worker.coversumm.index import index_class
from worker.events.publishing import SUMMARIES
from worker.processing.changes import EntityChanges
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, EntityCache, EntityKey
from worker.processing.facets import EntityFacets
from worker.processing.partitions import Partitions
from worker.state.entity import EntityRows, read_header


class Entities:
    """Finds and creates entities, and keeps them in a cache."""

    def __init__(self, config: ProcessorConfig, partitions: Partitions) -> None:
        """Raises IndexUnavailable."""
        self._config = config
        self._partitions = partitions
        self._new_index = index_class(config.index)
        self.cache = EntityCache(config.cache_bytes)

    def find(self, key: EntityKey) -> CachedEntity | None:
        """The entity from memory or rows, or None if it has no row."""
        entity = self.cache.get(key)
        if entity is not None:
            return entity
        header = read_header(self._partitions[key.partition].rows, key.entity_id.encode())
        if header is None:
            return None
        entity = self._make(key, header.incarnation, is_new=False)
        entity.review_count, entity.sentence_count = header.reviews, header.sentences
        entity.ratings = entity.rows.ratings(header)
        published = entity.rows.published(SUMMARIES)
        if published is not None:
            entity.sequence, (entity.published,) = published.sequence, published.sets
        self.cache.put(key, entity)
        return entity

    def create(self, key: EntityKey, incarnation: int) -> CachedEntity:
        """A new entity without rows; `incarnation` is the offset of the event creating it."""
        return self._make(key, incarnation, is_new=True)

    def _make(self, key: EntityKey, incarnation: int, *, is_new: bool) -> CachedEntity:
        config, dimension = self._config, self._config.limits.dimension
        rows = EntityRows(
            self._partitions[key.partition].rows, key.entity_id.encode(), incarnation, dimension
        )
        facets = self._partitions[key.partition].facets

        def load_facets(entity: CachedEntity) -> EntityFacets:
            assert facets is not None
            texts, distinct = entity.members_of, config.distinct
            return EntityFacets(facets, rows, texts, distinct=distinct, is_new=is_new)

        return CachedEntity(
            key.entity_id,
            rows,
            self._new_index,
            lambda index: EntityCore(config.k, dimension, index, distinct=config.distinct),
            None if facets is None else load_facets,
            is_new=is_new,
            codec=config.output,
        )

    def keep(self, changes: Iterable[EntityChanges]) -> None:
        """Accept these changes: cache created entities, drop deleted ones."""
        for one in changes:
            if one.end is not None:
                self.cache.drop(one.key)
            elif one.is_new:
                self.cache.put(one.key, one.entity)

    def discard(self, changes: Iterable[EntityChanges]) -> None:
        """Discard these changes: the entities are read again from the committed rows."""
        for one in changes:
            self.cache.drop(one.key)
