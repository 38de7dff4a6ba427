"""Summaries as of the last commit, for any thread, while later micro-batches are processed.

Until its events are ranked, an entity in memory is the committed one. From then to the commit the
committed state is in its stored rows, which take long to read for very many sentences. So views of
large, recently requested entities are kept. A view is made before the entity's next events are
ranked, and waits for the commit of earlier ones.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from worker.processing.config import ProcessorConfig
from worker.processing.entities import CachedEntity, Entities, EntityKey
from worker.processing.entity_view import Extent, SummaryView, V, read_view, view_sentences
from worker.state import Rows, read_applied
from worker.state.entity import read_header


def view_in_memory(entity: CachedEntity) -> SummaryView | None:
    """The entity now, or None if that needs a search of its rows. Raises CorruptRow."""
    ranking = entity.core.look() if entity.is_loaded else None
    if ranking is None:
        return None
    members = [entity.sentence(identifier) for identifier in ranking.ids]
    return SummaryView(
        entity.entity_id,
        entity.rows.incarnation,
        entity.review_count,
        entity.sentence_count,
        entity.ratings.ratings(),
        entity.summary.sequence,
        view_sentences(ranking, [(member.text, member.details) for member in members]),
        reservoir=entity.core.reservoir_size,
        refills=entity.core.counters.refilled,
    )


LARGE = 500  # sentences; reading the rows of a larger entity takes over some milliseconds
KEPT = 32  # views of large entities; each costs 0.1 ms per micro-batch that touches it


@dataclass(slots=True, eq=False)
class _Kept:
    """The view of an entity until its next change is committed; then a new object replaces this."""

    view: SummaryView | None = None


class Summaries:
    """The committed summaries of the entities of a processor.

    The processor calls `begin`, `touch`, `processed` and `forget`, the committer `commit`, and any
    thread the others.
    """

    def __init__(self, config: ProcessorConfig, cache: Entities) -> None:
        self._config = config
        self._cache = cache
        self._lock = threading.Lock()  # held briefly: never during a ranking or a scan
        self._touched: set[EntityKey] = set()  # by the micro-batch that is processed
        self._waiting: Counter[EntityKey] = Counter()  # by those that wait for their commit
        self._coming: dict[EntityKey, SummaryView | None] = {}  # of both: the next commit
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
        view = None if entity is None else view_in_memory(entity)
        if key in self._waiting:
            self._coming[key] = view
        else:
            kept.view = view

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
        """True if reading the entity's rows takes long."""
        header = read_header(rows, key.entity_id.encode())
        return header is not None and header.sentences > LARGE

    def from_memory(self, key: EntityKey) -> SummaryView | None:
        """The entity's summary if memory has it; needs the partition's open database."""
        with self._lock:
            next_offset = self._next_offsets.get(key.partition)
            view = None if next_offset is None else self._find(key)
        if view is None or next_offset is None:
            return None
        return replace(
            view,
            partition=key.partition,
            next_offset=max(next_offset, view.next_offset or next_offset),
        )

    def _find(self, key: EntityKey) -> SummaryView | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            if kept.view is not None:
                return kept.view
        is_ahead = key in self._touched or key in self._waiting
        entity = None if is_ahead else self._cache.peek(key)
        view = None if entity is None else view_in_memory(entity)
        if view is not None and view.sentence_count > LARGE:
            self._keep(key).view = view
        return view

    def from_rows(
        self, rows: Rows, key: EntityKey, kind: type[V], extent: Extent | None = None
    ) -> V | None:
        """The view of this kind from the partition's rows, or None; see `read_view`."""
        is_summary = issubclass(kind, SummaryView)
        applied = read_applied(rows) if is_summary else None
        kept = None if applied is None else self._kept_as_of(applied.next_offset, rows, key)
        config = self._config
        view = read_view(
            rows,
            key.entity_id,
            kind,
            extent,
            partition=key.partition,
            dimension=config.limits.dimension,
            k=config.k,
            distinct=config.distinct,
            by_text=config.by_text,
            language_min=config.language_min,
        )
        if isinstance(view, SummaryView):
            view = replace(view, reservoir=None)  # it is not that of the entity in memory
            if kept is not None:
                kept.view = view
        return view

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
