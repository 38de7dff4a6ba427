"""Summaries as of the last commit, for any thread, while later micro-batches are processed.

Until its events are ranked, an entity in memory is the committed one. From then to the commit the
committed state is in its stored rows, which take long to read for very many sentences. So views of
large, recently requested entities are kept. A view is made before the entity's next events are
ranked, and waits for the commit of earlier ones.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from worker.coversumm import EntityCore, Ranking
from worker.coversumm.index.flat import FlatIndex
from worker.events import RatingCounts
from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import CachedEntity, EntityCache, EntityKey, SummaryMember
from worker.processing.facet_view import (
    FacetsView,
    Overview,
    read_facets_view,
    read_overview,
)
from worker.processing.short_view import Extent, ShortView, read_short_view
from worker.state import Rows, SummaryView, read_applied
from worker.state.entity import EntityRows, read_header
from worker.state.view import view_sentences


class EntitySnapshot(NamedTuple):
    """The data of a view, independent of later changes of the entity."""

    entity_id: str
    incarnation: int
    review_count: int
    sentence_count: int
    ratings: RatingCounts
    sequence: int | None
    ranking: Ranking
    members: tuple[SummaryMember, ...]
    reservoir: int
    refills: int

    def view(self) -> SummaryView:
        """The view for users."""
        return SummaryView(
            self.entity_id,
            self.incarnation,
            self.review_count,
            self.sentence_count,
            self.ratings.ratings(),
            self.sequence,
            view_sentences(
                self.ranking, ((member.text, member.details) for member in self.members)
            ),
            reservoir=self.reservoir,
            refills=self.refills,
        )


def snapshot_of(entity: CachedEntity) -> EntitySnapshot | None:
    """The entity now, or None if that needs a search of its rows. Raises CorruptRow."""
    ranking = entity.core.look() if entity.is_loaded else None
    if ranking is None:
        return None
    return EntitySnapshot(
        entity.entity_id,
        entity.rows.incarnation,
        entity.review_count,
        entity.sentence_count,
        entity.ratings,
        entity.sequence,
        ranking,
        tuple([entity.member(identifier) for identifier in ranking.ids]),
        entity.core.reservoir_size,
        entity.core.counters.refilled,
    )


def read_summary(rows: Rows, entity_id: str, config: ProcessorConfig) -> SummaryView | None:
    """The entity from its rows, or None if unknown. Reads all vectors twice. Raises CorruptRow."""
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
        entity.ratings(header).ratings(),
        None if published is None else published.sequence,
        view_sentences(ranking, map(entity.text_and_details, ranking.ids)),
    )


RowsView = TypeVar("RowsView", ShortView, FacetsView, Overview)


def _placed(rows: Rows, key: EntityKey, view: RowsView | None) -> RowsView | None:
    """The view with the partition and offset of the rows that it was read from."""
    applied = read_applied(rows)
    if view is None or applied is None:
        return None
    return replace(view, partition=key.partition, next_offset=applied.next_offset)


LARGE = 500  # sentences; reading the rows of a larger entity takes over some milliseconds
KEPT = 32  # views of large entities; each costs 0.1 ms per micro-batch that touches it


class _Kept:
    """The view of an entity until its next change is committed; then a new object replaces this."""

    __slots__ = ("view",)

    def __init__(self, view: EntitySnapshot | SummaryView | None = None) -> None:
        self.view = view


class Summaries:
    """The committed summaries of the entities of a processor.

    The processor calls `begin`, `touch`, `processed` and `forget`, the committer `commit`, and any
    thread the others.
    """

    def __init__(self, config: ProcessorConfig, cache: EntityCache) -> None:
        self._config = config
        self._cache = cache
        self._lock = threading.Lock()  # held briefly: never during a ranking or a scan
        self._touched: set[EntityKey] = set()  # by the micro-batch that is processed
        self._waiting: Counter[EntityKey] = Counter()  # by those that wait for their commit
        self._coming: dict[EntityKey, EntitySnapshot | None] = {}  # of both: the next commit
        self._next_offsets: dict[int, int] = {}
        self._begun: dict[int, object] = {}
        self._kept: OrderedDict[EntityKey, _Kept] = OrderedDict()

    # -- the processor's thread

    def touch(self, key: EntityKey) -> None:
        """The entity's events are ranked next: until the commit its memory is ahead."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and key not in self._touched:
                self._make_view(key, kept)
            self._touched.add(key)

    def _make_view(self, key: EntityKey, kept: _Kept) -> None:
        """Make the entity's view before it is ranked, for the present or the coming commit."""
        if kept.view is not None and key not in self._waiting:
            return
        entity = self._cache.peek(key)
        snapshot = None if entity is None else snapshot_of(entity)
        if key in self._waiting:
            self._coming[key] = snapshot
        else:
            kept.view = snapshot

    def processed(self, touched: Iterable[EntityKey]) -> None:
        """A micro-batch with these entities waits for its commit."""
        with self._lock:
            self._waiting.update(touched)
            self._touched.clear()

    def commit(self, touched: Collection[EntityKey], next_offsets: Mapping[int, int]) -> None:
        """The oldest waiting micro-batch, with these entities, is committed up to these offsets."""
        with self._lock:
            self._waiting -= Counter(touched)
            for key in set(touched):
                view = self._coming.pop(key, None)
                if key in self._kept:
                    self._kept[key] = _Kept(view)
            self._next_offsets.update(next_offsets)

    def begin(self, partition: int, next_offset: int) -> None:
        """The partition's rows are as of a commit, up to this offset."""
        with self._lock:
            self._next_offsets[partition] = next_offset
            self._begun[partition] = object()

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are no longer held."""
        gone = set(partitions)
        with self._lock:
            self._touched = {key for key in self._touched if key.partition not in gone}
            for of_entities in (self._waiting, self._coming, self._kept):
                for key in [key for key in of_entities if key.partition in gone]:
                    del of_entities[key]
            for partition in gone:
                self._next_offsets.pop(partition, None)
                self._begun.pop(partition, None)

    # -- any thread

    def begun(self, partition: int) -> object | None:
        """An object that identifies the partition's `begin`, or None before it."""
        return self._begun.get(partition)

    def is_large(self, rows: Rows, key: EntityKey) -> bool:
        """Whether reading the entity's rows takes long."""
        header = read_header(rows, key.entity_id.encode())
        return header is not None and header.sentences > LARGE

    def from_memory(self, key: EntityKey) -> SummaryView | None:
        """The entity's summary if memory has it; needs the partition's open database."""
        with self._lock:
            next_offset = self._next_offsets.get(key.partition)
            found = None if next_offset is None else self._find(key)
        if found is None or next_offset is None:
            return None
        view = found.view() if isinstance(found, EntitySnapshot) else found
        return replace(
            view,
            partition=key.partition,
            next_offset=max(next_offset, view.next_offset or next_offset),
        )

    def _find(self, key: EntityKey) -> EntitySnapshot | SummaryView | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            if kept.view is not None:
                return kept.view
        is_ahead = key in self._touched or key in self._waiting
        entity = None if is_ahead else self._cache.peek(key)
        snapshot = None if entity is None else snapshot_of(entity)
        if snapshot is not None and snapshot.sentence_count > LARGE:
            self._keep(key).view = snapshot
        return snapshot

    def from_rows(self, rows: Rows, key: EntityKey) -> SummaryView | None:
        """The entity's summary from the partition's rows, or None. Reads all of its vectors."""
        applied = read_applied(rows)
        kept = None if applied is None else self._kept_as_of(applied.next_offset, rows, key)
        view = read_summary(rows, key.entity_id, self._config)
        if view is None or applied is None:
            return None
        view = replace(view, partition=key.partition, next_offset=applied.next_offset)
        if kept is not None:
            kept.view = view
        return view

    def short_view(self, rows: Rows, key: EntityKey, extent: Extent) -> ShortView | None:
        """The entity's short view from the partition's rows, or None. Reads all of its vectors."""
        dimension = self._config.limits.dimension
        return _placed(rows, key, read_short_view(rows, key.entity_id, dimension, extent))

    def facets(self, rows: Rows, key: EntityKey) -> FacetsView | None:
        """The entity's facets from the partition's rows, or None. Raises NoFacets."""
        dimension, distinct = self._config.limits.dimension, self._config.distinct
        view = read_facets_view(rows, key.entity_id, dimension=dimension, distinct=distinct)
        return _placed(rows, key, view)

    def overview(self, rows: Rows, key: EntityKey, extent: Extent) -> Overview | None:
        """The entity's overview from the partition's rows, or None. Raises NoFacets."""
        dimension = self._config.limits.dimension
        return _placed(rows, key, read_overview(rows, key.entity_id, dimension, extent))

    def _kept_as_of(self, next_offset: int, rows: Rows, key: EntityKey) -> _Kept | None:
        """Where to keep a large entity's view of rows up to this offset; None after a later commit.

        A commit during the reading replaces the object, so an old view is not served.
        """
        if not self.is_large(rows, key):
            return None
        with self._lock:
            known = self._next_offsets.get(key.partition)
            return None if known is None or next_offset < known else self._keep(key)

    def _keep(self, key: EntityKey) -> _Kept:
        """Start keeping the entity's view; under the lock."""
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept
