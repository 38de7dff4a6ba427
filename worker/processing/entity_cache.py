"""Entities in memory: what one event needs of its entity, kept between micro-batches as far as the
cache's bytes go.

All of it can be read from the stored rows again, so eviction and restarts change nothing but time.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from worker.coversumm import Counters, EntityCore, Index, NewIndex
from worker.events import quote
from worker.state.entity import EntityRows
from worker.state.errors import CorruptRow
from worker.state.keys import describe, review_of
from worker.state.rows import text_digest

ENTITY_BYTES = 2500
"""What an entity takes besides its core and its texts: objects, keys, dictionaries."""
MEMBER_BYTES = 600
"""What a member takes besides its text."""


class EntityKey(NamedTuple):
    """Names an entity: its id is unique within its partition."""

    partition: int
    entity_id: str


@dataclass(slots=True)
class SummaryMember:
    """A sentence of a summary, as messages and the published row need it."""

    id: bytes
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    digest: bytes
    quote: bytes
    """What messages say of it."""

    @property
    def memory_bytes(self) -> int:
        """Roughly what it takes."""
        return MEMBER_BYTES + len(self.text) + len(self.quote)

    @classmethod
    def of(cls, identifier: bytes, text: str, rating: float | None) -> "SummaryMember":
        """From a live sentence and its review's rating."""
        sentence_id, review_id = identifier.decode(), review_of(identifier).decode()
        quoted = quote(sentence_id, review_id, text, rating)
        return cls(identifier, sentence_id, review_id, text, rating, text_digest(text), quoted)


class CachedEntity:
    """One incarnation of an entity. Changed only when a micro-batch is ranked, never while it is
    planned.
    """

    __slots__ = (
        "_core",
        "_counted",
        "_index",
        "_new_core",
        "_new_index",
        "entity_id",
        "member_bytes",
        "members",
        "memory_bytes",
        "published",
        "review_count",
        "rows",
        "sentence_count",
        "sequence",
    )

    def __init__(
        self,
        entity_id: str,
        rows: EntityRows,
        new_index: NewIndex,
        new_core: Callable[[Index], EntityCore],
    ) -> None:
        self.entity_id = entity_id
        self.rows = rows
        self.review_count = 0
        self.sentence_count = 0
        self.sequence: int | None = None
        """Source offset of the last published change."""
        self.published: dict[bytes, bytes] = {}
        """`{sentence id: text digest}` of the set last published, in rank order."""
        self.members: dict[bytes, SummaryMember] = {}
        """Live sentences that are in the set, or were lately; stored rows have the others. Changed
        by the methods below alone.
        """
        self.member_bytes = 0
        """Roughly what the members take; more than a message with all of them."""
        self.memory_bytes = 0
        self._core: EntityCore | None = None
        self._counted = Counters()
        self._index: Index | None = None
        self._new_index = new_index
        self._new_core = new_core

    @property
    def core(self) -> EntityCore:
        """The entity's algorithm; the first use reads all stored vectors. Raises CorruptRow."""
        if self._core is None:
            self._index = self._new_index(self.rows.dimension, self.rows.blocks)
            core = self._new_core(self._index)
            if core.n != self.sentence_count:
                raise CorruptRow(
                    describe(self.rows.header_key),
                    f"counts {self.sentence_count} sentences, {core.n} are stored",
                )
            self._core = core
        return self._core

    def member(self, identifier: bytes) -> SummaryMember:
        """A live sentence of the set, as of the last micro-batch. Raises CorruptRow where it is not
        stored.
        """
        member = self.members.get(identifier)
        if member is None:
            member = SummaryMember.of(identifier, *self.rows.text_and_rating(identifier))
            self.keep_member(member)
        return member

    def keep_member(self, member: SummaryMember) -> None:
        """Have a live sentence at hand, in place of what it was before."""
        self.drop_member(member.id)
        self.members[member.id] = member
        self.member_bytes += member.memory_bytes

    def drop_member(self, identifier: bytes) -> None:
        """Forget a sentence."""
        member = self.members.pop(identifier, None)
        if member is not None:
            self.member_bytes -= member.memory_bytes

    def keep_members_only(self, members: Iterable[SummaryMember]) -> None:
        """Forget all but these."""
        self.members = {member.id: member for member in members}
        self.member_bytes = sum([member.memory_bytes for member in self.members.values()])

    @property
    def is_loaded(self) -> bool:
        """The core is in memory."""
        return self._core is not None

    def count(self, counters: Counters) -> None:
        """Add what the core has counted since the last call."""
        if self._core is not None:
            now = self._core.counters
            counters.add(now, self._counted)
            self._counted = now.copy()

    def on_processed(self) -> None:
        """What its rows tell is up to date: give up what only bridged the time until then."""
        if self._index is not None:
            self._index.on_commit()
        core_bytes = self._core.memory_bytes if self._core is not None else 0
        self.memory_bytes = ENTITY_BYTES + self.member_bytes + core_bytes


class EntityCache:
    """The entities in memory, least recently used first; bounded between micro-batches, by
    `on_processed`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.memory_bytes = 0
        self._entities: OrderedDict[EntityKey, CachedEntity] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entities)

    def get(self, key: EntityKey) -> CachedEntity | None:
        """The entity if it is in memory."""
        entity = self._entities.get(key)
        if entity is not None:
            self._entities.move_to_end(key)
        return entity

    def peek(self, key: EntityKey) -> CachedEntity | None:
        """The entity if it is in memory, which is no use of it; from any thread."""
        return self._entities.get(key)

    def put(self, key: EntityKey, entity: CachedEntity) -> None:
        """Keep an entity, in place of an earlier incarnation."""
        self.drop(key)
        self._entities[key] = entity
        self.memory_bytes += entity.memory_bytes

    def drop(self, key: EntityKey) -> None:
        """Forget an entity."""
        entity = self._entities.pop(key, None)
        if entity is not None:
            self.memory_bytes -= entity.memory_bytes

    def on_processed(self, touched: Iterable[EntityKey]) -> int:
        """The rows of these entities are written. Then evict until the limit holds, even the last
        used one; how many.
        """
        for key in touched:
            entity = self._entities.get(key)
            if entity is not None:
                before = entity.memory_bytes
                entity.on_processed()
                self.memory_bytes += entity.memory_bytes - before
        evicted = 0
        while self.memory_bytes > self.limit_bytes:
            _, entity = self._entities.popitem(last=False)
            self.memory_bytes -= entity.memory_bytes
            evicted += 1
        return evicted

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop all entities of these partitions."""
        gone = set(partitions)
        for key in [key for key in self._entities if key.partition in gone]:
            self.drop(key)
