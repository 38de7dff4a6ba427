"""The usual events of a micro-batch in native code: a pool of small entities beside `Entities`.

Python's form is the definition. The pool (`worker/native`, in Rust) takes events whose effect it
knows completely, and publishes and stores the same bytes; of an entity with any other event in a
micro-batch Python takes all. An entity is in the pool or in Python's cache, never in both: it
changes sides by being dropped, and read from its rows.

So views need nothing of the pool. An entity in it is not in Python's cache, and its view is read
from the committed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from worker.coversumm.native import native_module
from worker.errors import SetupError
from worker.events import Record
from worker.events.codec import DEFAULT
from worker.facets.membership import FacetCriteria
from worker.facets.plain import plain_facets
from worker.facets.words import Meaning
from worker.processing.config import ProcessorConfig
from worker.processing.embed import Embedder
from worker.processing.entities import Entities, EntityKey
from worker.processing.known_texts import KnownReview, known_reviews
from worker.processing.pace import Load
from worker.processing.partitions import Partitions
from worker.processing.stats import Stats
from worker.state.keys import header_key
from worker.state.rows import decode_header

if TYPE_CHECKING:
    from worker._native import Pool, Processed

MOST_SENTENCES: Final = 32_768
"""Live ones of an entity in the pool. Numbers of native code fit then, and reading the entity again
takes no more than a fraction of a second.
"""
FEW_SENTENCES: Final = 256
"""Up to so many an entity takes no more memory in the pool than in Python's cache. It is read again
quickly, too. Larger ones come into the pool only while there is room for many, and while Python has
none of them in memory: reading it again for each change of sides would take longer than its events.
"""
ROOM: Final = 0.75  # of COVERSUMM_CACHE_BYTES
SENTENCE_BYTES: Final = 1200  # of a sentence in the pool besides its vector
MOST_UNFIT: Final = 10_000
EntityRows = Iterable[tuple[bytes, bytes]]
MISSING: Final = (
    "COVERSUMM_NATIVE=require: the native module is not installed here, or of another version; "
    "install Rust and run `make setup`, take a wheel that has it, or set COVERSUMM_NATIVE=auto"
)


def check_native(choice: str) -> None:
    """Raise SetupError if COVERSUMM_NATIVE requires the module, and it is not here."""
    if choice == "require" and native_module() is None:
        raise SetupError(MISSING)


def why_python(config: ProcessorConfig) -> str:
    """Why Python takes all events; empty if native code takes the usual ones."""
    if config.native == "off":
        return "COVERSUMM_NATIVE=off"
    if native_module() is None:
        return "native code is not installed here, or of other sources: `make setup` builds it"
    return unusual_settings(config)


def unusual_settings(config: ProcessorConfig) -> str:
    """The settings under which the pool cannot process events; empty if it can."""
    unusual = {
        "--emit final": config.emit == "final",
        "COVERSUMM_EMIT_MIN_CHANGES": config.min_changes != 1,
        "COVERSUMM_INDEX": config.index != "flat",
        "COVERSUMM_FACETS with --emit or these settings": not _has_usual_facets(config),
        "COVERSUMM_MAPPING": config.mapping is not None,
        "a replay of some records": not config.selection.is_all,
        "COVERSUMM_SCHEMA_REGISTRY_URL": config.codec is not DEFAULT,
        "COVERSUMM_OUTPUT_FORMAT": config.output is not DEFAULT,
    }
    return ", ".join(name for name, is_so in unusual.items() if is_so)


def _has_usual_facets(config: ProcessorConfig) -> bool:
    facets = config.facets
    if facets is None:
        return True
    is_plain = plain_facets(facets, config.emit_mentions) is not None
    return is_plain and config.emit == "every" and not config.distinct


class NativeEntities:
    """The pool of a processor: what of a micro-batch it takes, and its results."""

    def __init__(
        self, pool: Pool, config: ProcessorConfig, partitions: Partitions, entities: Entities
    ) -> None:
        self._pool = pool
        self._config = config
        self._partitions = partitions
        self._entities = entities
        self._defined: set[int] = set()  # partitions whose facets the pool has
        self._unfit: set[EntityKey] = set()  # the pool did not take these, Python may hold them
        self._mentions = partial(answer, config.facets)
        self._sentence_bytes = SENTENCE_BYTES + 2 * config.limits.dimension

    def take(
        self, records: Sequence[Record], new: Sequence[int], load: Load, embedder: Embedder
    ) -> tuple[dict[int, int], list[KnownReview]]:
        """By index, among those of new records, the sentences that each event adds, replaces or
        removes which the pool holds now; those of these events whose vectors `embedder` knows.

        Raises CorruptRow, and TooMuch if their entities are too much.
        """
        places = {i: (records[i].partition, records[i].key) for i in new}
        if self._config.facets is not None:
            self._define({number for number, _ in places.values()})
        if kept := {place for place in set(places.values()) if self._is_kept(*place)}:
            new = [i for i in new if places[i] not in kept]

        def rows_of(index: int, loaded: int, pool_bytes: int) -> EntityRows | None:
            load.check_loaded(loaded, index)
            return self._rows_of(records[index], pool_bytes)

        store = embedder.store
        known = {} if store is None else known_reviews(records, new, self._config, embedder)
        sizes, unfit, load.loaded = self._pool.take(records, new, known, rows_of, self._mentions)
        if len(self._unfit) > MOST_UNFIT:
            self._unfit.clear()
        self._unfit.update(EntityKey(number, entity.decode()) for number, entity in unfit)
        return dict(sizes), [known[i] for i, _ in sizes if i in known]

    def _define(self, partitions: Collection[int]) -> None:
        """Give the pool the facets of these partitions, once."""
        for number in set(partitions) - self._defined:
            criteria = self._partitions[number].criteria
            if criteria is not None:
                plain = plain_facets(criteria, self._config.emit_mentions)
                if plain is not None:  # always, but for rows that no worker wrote
                    self._pool.define(number, plain)
            self._defined.add(number)

    def _is_kept(self, partition: int, entity: bytes | None) -> bool:
        """True if Python has the entity in memory, and the pool would not take it."""
        if entity is None:
            return False
        key = EntityKey(partition, entity.decode(errors="replace"))
        cached = self._entities.peek(key)
        if cached is None:
            return False
        return cached.sentence_count > FEW_SENTENCES or key in self._unfit

    def _rows_of(self, record: Record, pool_bytes: int) -> EntityRows | None:
        """The rows of a record's entity, which Python drops; None: it is Python's."""
        entity = record.key or b""
        key, start = EntityKey(record.partition, entity.decode()), header_key(entity)
        rows = iter(self._partitions[record.partition].rows.scan(start))
        head = next(rows, None)
        if head is None or head[0] != start:  # a new entity, maybe with rows of a deleted one
            return ()
        sentences = decode_header(*head).sentences
        needed = pool_bytes + self._entities.memory_bytes + sentences * self._sentence_bytes
        if sentences > MOST_SENTENCES or (
            sentences > FEW_SENTENCES and needed > ROOM * self._config.cache_bytes
        ):
            return None
        self._entities.drop(key)
        self._unfit.discard(key)
        return chain([head], rows)

    def process(self, on_progress: Callable[[], object]) -> Processed:
        """Carry out the held events. `drop` what they touched if their rows are not used."""
        return self._pool.process(on_progress)

    def drop(self, touched: Sequence[tuple[int, bytes]]) -> None:
        """Drop entities whose rows are not used: they are read again from the committed ones."""
        for entity_key in touched:
            self._pool.drop(*entity_key)

    def forget(self, partitions: Collection[int]) -> None:
        """Drop all entities of these partitions."""
        self._pool.forget(partitions)
        self._defined.difference_update(partitions)
        self._unfit.clear()

    def evict(self) -> int:
        """Evict here and in Python's cache down to the limit of both; how many it evicted.

        The smaller side may keep half of the limit, so that neither drives the other out.
        """
        limit, pool, entities = self._config.cache_bytes, self._pool, self._entities
        evicted = entities.evict(max(limit // 2, limit - pool.memory_bytes))
        return evicted + pool.evict(max(0, limit - entities.memory_bytes))

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self._pool.memory_bytes

    def __len__(self) -> int:
        return len(self._pool)


def open_native(
    config: ProcessorConfig, partitions: Partitions, entities: Entities
) -> NativeEntities | None:
    """The pool of a processor; None if the settings leave it out, or the module is not here.

    Raises SetupError if COVERSUMM_NATIVE requires the module, and it is not used.
    """
    check_native(config.native)
    if (why := why_python(config)) and config.native == "require":
        raise SetupError(
            f"COVERSUMM_NATIVE=require: Python takes all events, because of {why}; "
            "change that, or set COVERSUMM_NATIVE=auto"
        )
    if why:
        return None
    pool: Pool = native_module().Pool(config, MOST_SENTENCES)
    return NativeEntities(pool, config, partitions, entities)


def answer(
    criteria: FacetCriteria | None, kind: str, language: str | None, texts: Sequence[str]
) -> Sequence[str | int | Meaning]:
    """Answer what the pool asks about texts; all partitions have one definition of facets.

    `language`: the tag of a text whose language is asked for, else the one found, a line break, and
    the tag.
    """
    assert criteria is not None
    if kind == "language":
        return [criteria.language_of(texts, language)]
    found, _, tag = (language or "").partition("\n")
    if kind == "words":
        return [criteria.mentions_of_word(word, found, tag) for word in texts]
    if kind == "quotable":
        return [criteria.quotable(text, found, tag) for text in texts]
    return [criteria.mentions([text], found, tag) for text in texts]


def count_native(stats: Stats, done: Processed) -> None:
    """Count what the pool did."""
    stats.outcomes.update(done.outcomes)
    stats.set_changes += done.set_changes
    stats.future_dates += done.future_dates
    stats.entities += done.created
    stats.core.steps += done.steps
    stats.core.proved_reservoir += done.steps - done.refills
    stats.core.refilled += done.refills
