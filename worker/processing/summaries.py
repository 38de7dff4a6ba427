"""Summaries as of the last commit, for any thread, while a micro-batch is under way.

An entity in memory is the committed one until its events are ranked: until then it is simply looked at. From then to the commit
its stored rows tell. They are read one and all, which takes a second for an entity of very many sentences, so of large
entities that were asked for lately the view is kept, and made in time where it is not: before their next events are ranked.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from worker.processing.config import ProcessorConfig
from worker.processing.entity_cache import EntityCache, EntityKey
from worker.processing.short_view import Extent, ShortView, read_short_view
from worker.processing.summary import Standing, read_summary, standing_of
from worker.state import Rows, SummaryView, read_applied
from worker.state.entity import read_header

LARGE = 500
"""An entity of more sentences is large: its rows take longer than some milliseconds to read."""
KEPT = 32
"""Of how many large entities a view is kept. Each costs every micro-batch that touches it a tenth of a millisecond."""


class _Kept:
    """The view of an entity until its next change is committed; then another object takes its place."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view: Standing | SummaryView | None = None


class Summaries:
    """The committed summaries of the entities of a processor.

    `begin`, `touch`, `commit` and `forget` are the processor's, all others anyone's.
    """

    def __init__(self, config: ProcessorConfig, cache: EntityCache) -> None:
        self._config = config
        self._cache = cache
        self._lock = (
            threading.Lock()
        )  # held for a moment only, never while anything is ranked or rows are scanned
        self._touched: set[EntityKey] = set()
        self._next_offsets: dict[int, int] = {}
        self._kept: OrderedDict[EntityKey, _Kept] = OrderedDict()

    # -- the processor's thread ------------------------------------------------------------------------------

    def touch(self, key: EntityKey) -> None:
        """The entity's events are about to be ranked: from here to the commit it is not what is committed."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and kept.view is None and key not in self._touched:
                entity = self._cache.peek(key)
                kept.view = None if entity is None else standing_of(entity)
            self._touched.add(key)

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """What was touched is in the committed rows, up to these offsets."""
        with self._lock:
            for key in self._touched & self._kept.keys():
                self._kept[key] = _Kept()
            self._touched.clear()
            self._next_offsets.update(next_offsets)

    def begin(self, partition: int, next_offset: int) -> None:
        """The partition's rows are as of a commit, up to this offset, and go on from there."""
        with self._lock:
            self._next_offsets[partition] = next_offset

    def forget(self, partitions: Iterable[int]) -> None:
        """These partitions are others' now."""
        gone = set(partitions)
        with self._lock:
            self._touched = {key for key in self._touched if key.partition not in gone}
            for key in [key for key in self._kept if key.partition in gone]:
                del self._kept[key]
            for partition in gone:
                self._next_offsets.pop(partition, None)

    # -- any thread ------------------------------------------------------------------------------------------

    def has(self, partition: int) -> bool:
        """Whether the partition's rows are those of its summaries."""
        return partition in self._next_offsets

    def is_large(self, rows: Rows, key: EntityKey) -> bool:
        """Whether reading the entity's rows takes long."""
        header = read_header(rows, key.entity_id.encode())
        return header is not None and header.sentences > LARGE

    def from_memory(self, key: EntityKey) -> SummaryView | None:
        """The entity's summary where memory tells it, at once. The partition's database must be open meanwhile."""
        with self._lock:
            next_offset = self._next_offsets.get(key.partition)
            found = None if next_offset is None else self._find(key)
        if found is None or next_offset is None:
            return None
        view = found.view() if isinstance(found, Standing) else found
        return replace(
            view, partition=key.partition, next_offset=max(next_offset, view.next_offset or next_offset)
        )

    def _find(self, key: EntityKey) -> Standing | SummaryView | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            if kept.view is not None:
                return kept.view
        entity = None if key in self._touched else self._cache.peek(key)
        standing = None if entity is None else standing_of(entity)
        if standing is not None and standing.sentence_count > LARGE:
            self._keep(key).view = standing
        return standing

    def from_rows(self, rows: Rows, key: EntityKey) -> SummaryView | None:
        """The entity's summary by the partition's rows, None where there is no such entity. Reads all of its vectors."""
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
        """The entity's short view by the partition's rows, None where there is no such entity. Reads all of its vectors."""
        applied = read_applied(rows)
        view = read_short_view(rows, key.entity_id, self._config.limits.dimension, extent)
        if view is None or applied is None:
            return None
        return replace(view, partition=key.partition, next_offset=applied.next_offset)

    def _kept_as_of(self, next_offset: int, rows: Rows, key: EntityKey) -> _Kept | None:
        """Where to keep a large entity's view by rows up to this offset; None where a commit has come since they were looked at.

        One that comes later finds it there, and replaces it.
        """
        if not self.is_large(rows, key):
            return None
        with self._lock:
            known = self._next_offsets.get(key.partition)
            return None if known is None or next_offset < known else self._keep(key)

    def _keep(self, key: EntityKey) -> _Kept:
        """Begin to keep the entity's view; under the lock."""
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept
