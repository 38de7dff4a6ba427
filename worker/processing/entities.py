"""The entities of the held partitions, in memory up to a number of bytes; all from stored rows.

How an entity lives in memory: `CachedEntity` has its counts, its summary and facets as
`TrackedSets`, each set with a core of the algorithm that is read at its first use, and the texts of
the sentences in and near the sets. Vectors and reviews stay in the rows.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.coversumm import Counters, EntityCore, FlatIndex, NewIndex
from worker.events.publishing import SUMMARIES
from worker.events.ratings import NO_RATINGS, RatingCounts
from worker.facets.membership import FacetCriteria
from worker.processing.config import ProcessorConfig, index_class
from worker.processing.facets import EntityFacets
from worker.processing.partitions import Partitions
from worker.processing.tracked_sets import SetSentence, TrackedSet, TrackedSets
from worker.state.entity import EntityRows, read_header
from worker.state.errors import CorruptRow
from worker.state.keys import describe

ENTITY_BYTES = 2500  # of an entity besides its core and texts: objects, keys, dictionaries


class EntityKey(NamedTuple):
    """Identifies an entity: its id is unique within its partition."""

    partition: int
    entity_id: str


@dataclass(slots=True, eq=False)
class CachedEntity:
    """One incarnation of an entity. It changes only while a micro-batch is ranked."""

    entity_id: str
    rows: EntityRows
    config: ProcessorConfig
    new_index: NewIndex
    criteria: FacetCriteria | None  # those of its facets, None without any
    is_new: bool  # it has no rows
    review_count: int = 0
    sentence_count: int = 0
    ratings: RatingCounts = NO_RATINGS
    summary: TrackedSets = field(init=False)  # its one set
    cached: dict[bytes, SetSentence] = field(default_factory=dict)
    """Live sentences that are or recently were in a set; the others are in stored rows. Changed
    only by the methods below.
    """
    cached_bytes: int = 0  # approximate; above the size of a message with all of them
    memory_bytes: int = 0
    _set: TrackedSet = field(default_factory=TrackedSet)
    _facets: EntityFacets | None = None

    def __post_init__(self) -> None:
        published = None if self.is_new else self.rows.published(SUMMARIES)
        self.summary = TrackedSets(SUMMARIES, [self._set], published)

    # -- sets

    @property
    def facets(self) -> EntityFacets | None:
        """The entity's facets, if any are defined. Raises CorruptRow."""
        if self._facets is None and self.criteria is not None:
            self._facets = EntityFacets(
                self.criteria,
                self.rows,
                self.sentences,
                self.config.new_core,
                self.is_new,
                self.config.emit_mentions,
            )
        return self._facets

    def tracked_sets(self) -> list[TrackedSet]:
        """The summary, and the facets that are in memory."""
        facets = self._facets
        return self.summary.sets if facets is None else [self._set, *facets.tracked.sets]

    @property
    def core(self) -> EntityCore:
        """The summary's algorithm; the first use reads all stored vectors. Raises CorruptRow."""
        if self._set.core is None:
            core = self._begin_core()
            if not self.is_new:
                core.read()
            return self._set_core(core)
        return self._set.core

    @property
    def is_loaded(self) -> bool:
        """True if the core is in memory, and so are the facets, if there are any."""
        if self._set.core is None:
            return False
        return self.criteria is None or (self._facets is not None and self._facets.is_loaded)

    def load(self) -> None:
        """Read core and facets, unless they are in memory; a flat index does so in the same passes.

        Raises CorruptRow.
        """
        facets = self.facets
        if facets is None or facets.is_loaded:
            return
        if self._set.core is None and self.new_index is FlatIndex:
            core = self._begin_core()
            facets.load(core)
            self._set_core(core)
        else:
            facets.load()

    def _begin_core(self) -> EntityCore:
        index = self._set.index = self.new_index(self.rows.dimension, self.rows.blocks)
        return self.config.new_core(self.config.k, index)

    def _set_core(self, core: EntityCore) -> EntityCore:
        if core.live != self.sentence_count:
            raise CorruptRow(
                describe(self.rows.header_key),
                f"counts {self.sentence_count} sentences, {core.live} are stored",
            )
        self._set.core = core
        return core

    # -- texts

    def sentence(self, identifier: bytes) -> SetSentence:
        """A live sentence as of the last micro-batch. Raises CorruptRow if it is not stored."""
        sentence = self.cached.get(identifier)
        if sentence is None:
            stored = self.rows.text_and_details(identifier)
            sentence = SetSentence.of(identifier, *stored, self.config.output)
            self.keep_sentence(sentence)
        return sentence

    def sentences(self, identifiers: Sequence[bytes]) -> list[SetSentence]:
        """The sentences with these ids, see `sentence`."""
        try:
            return list(map(self.cached.__getitem__, identifiers))  # most often
        except KeyError:
            return [self.sentence(identifier) for identifier in identifiers]

    def keep_sentence(self, sentence: SetSentence) -> None:
        """Cache a live sentence, replacing its earlier form."""
        self.drop_sentence(sentence.id)
        self.cached[sentence.id] = sentence
        self.cached_bytes += sentence.memory_bytes

    def drop_sentence(self, identifier: bytes) -> None:
        """Drop a sentence."""
        sentence = self.cached.pop(identifier, None)
        if sentence is not None:
            self.cached_bytes -= sentence.memory_bytes

    def keep_sentences_only(self, names: Collection[bytes]) -> None:
        """Drop all other sentences."""
        self.cached = {name: sentence for name, sentence in self.cached.items() if name in names}
        self.cached_bytes = sum(
            [cached_sentence.memory_bytes for cached_sentence in self.cached.values()]
        )

    # -- the cache

    def count(self, counters: Counters) -> None:
        """Add the core's counts since the last call."""
        core = self._set.core
        if core is not None:
            counters.add(core.counters)
            core.counters = Counters()

    def on_processed(self) -> None:
        """The rows are up to date: release what they contain now."""
        if self._set.index is not None:
            self._set.index.on_rows_written()
        if self._facets is not None:
            self._facets.on_processed()
        self.memory_bytes = self.measure()

    def measure(self) -> int:
        """Approximate bytes in memory now; `memory_bytes` are those after the last micro-batch."""
        core, facets = self._set.core, self._facets
        size = ENTITY_BYTES + self.cached_bytes
        if core is not None:
            size += core.memory_bytes
        return size if facets is None else size + facets.measure()


class Entities:
    """Finds and creates entities, and keeps them in an LRU cache, bounded by `evict`."""

    def __init__(self, config: ProcessorConfig, partitions: Partitions) -> None:
        """Raises IndexUnavailable."""
        self.memory_bytes = 0
        self._config = config
        self._partitions = partitions
        self._new_index = index_class(config.index)
        self._entities: OrderedDict[EntityKey, CachedEntity] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entities)

    def find(self, key: EntityKey) -> CachedEntity | None:
        """The entity from memory or rows, or None if it has no row. Raises CorruptRow."""
        entity = self._entities.get(key)
        if entity is not None:
            self._entities.move_to_end(key)
            return entity
        header = read_header(self._partitions[key.partition].rows, key.entity_id.encode())
        if header is None:
            return None
        entity = self._make(key, header.incarnation, is_new=False)
        entity.review_count, entity.sentence_count = header.reviews, header.sentences
        entity.ratings = header.ratings
        self.put(key, entity)
        return entity

    def peek(self, key: EntityKey) -> CachedEntity | None:
        """The entity if it is cached, without marking it as used; from any thread."""
        return self._entities.get(key)

    def create(self, key: EntityKey, incarnation: int) -> CachedEntity:
        """A new entity without rows; `incarnation` is the offset of the event creating it."""
        return self._make(key, incarnation, is_new=True)

    def _make(self, key: EntityKey, incarnation: int, *, is_new: bool) -> CachedEntity:
        partition, dimension = self._partitions[key.partition], self._config.limits.dimension
        rows = EntityRows(partition.rows, key.entity_id.encode(), incarnation, dimension)
        return CachedEntity(
            key.entity_id, rows, self._config, self._new_index, partition.criteria, is_new
        )

    def put(self, key: EntityKey, entity: CachedEntity) -> None:
        """Cache an entity, replacing an earlier incarnation."""
        self.drop(key)
        self._entities[key] = entity
        self.memory_bytes += entity.memory_bytes

    def drop(self, key: EntityKey) -> None:
        """Drop an entity: it is read again from the committed rows."""
        entity = self._entities.pop(key, None)
        if entity is not None:
            self.memory_bytes -= entity.memory_bytes

    def on_processed(self, touched: Iterable[EntityKey]) -> None:
        """The rows of these entities are written."""
        for key in touched:
            entity = self._entities.get(key)
            if entity is not None:
                before = entity.memory_bytes
                entity.on_processed()
                self.memory_bytes += entity.memory_bytes - before

    def evict(self, most_bytes: int) -> int:
        """Evict those used least recently down to so many bytes; how many it evicted."""
        evicted = 0
        while self.memory_bytes > most_bytes:
            _, entity = self._entities.popitem(last=False)
            self.memory_bytes -= entity.memory_bytes
            evicted += 1
        return evicted

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop all entities of these partitions."""
        gone = set(partitions)
        for key in [key for key in self._entities if key.partition in gone]:
            self.drop(key)
