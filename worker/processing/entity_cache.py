"""Entities in memory, kept between micro-batches up to a number of bytes.

All of it can be read again from the stored rows.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from worker.coversumm import Counters, EntityCore, FlatIndex, Index, NewIndex
from worker.events import ReviewDetails
from worker.events.codec import OutputCodec
from worker.events.ratings import NO_RATINGS
from worker.processing.facets import EntityFacets
from worker.state.entity import EntityRows
from worker.state.errors import CorruptRow
from worker.state.keys import describe, review_of
from worker.state.rows import text_digest

ENTITY_BYTES = 2500  # of an entity besides its core and texts: objects, keys, dictionaries
MEMBER_BYTES = 600  # of a member besides its text


class EntityKey(NamedTuple):
    """Identifies an entity: its id is unique within its partition."""

    partition: int
    entity_id: str


@dataclass(slots=True)
class SummaryMember:
    """A sentence of a summary, as messages and the published row need it."""

    id: bytes
    sentence_id: str
    review_id: str
    text: str
    details: ReviewDetails
    digest: bytes
    quote: bytes  # the part that is the same in every message

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return MEMBER_BYTES + len(self.text) + len(self.quote)

    @classmethod
    def of(
        cls, identifier: bytes, text: str, details: ReviewDetails, codec: OutputCodec
    ) -> "SummaryMember":
        """From a live sentence and its review's details, for messages of this codec."""
        sentence_id, review_id = identifier.decode(), review_of(identifier).decode()
        quoted = codec.quote(sentence_id, review_id, text, details)
        return cls(identifier, sentence_id, review_id, text, details, text_digest(text), quoted)


class CachedEntity:
    """One incarnation of an entity. It changes only while a micro-batch is ranked.

    Attributes:
        sequence: source offset of the last published change.
        published: `{sentence id: text digest}` of the set last published, in rank order.
        members: live sentences that are or recently were in the set; the others are in stored
            rows. Changed only by the methods below.
        member_bytes: approximate; above the size of a message with all of them.
    """

    __slots__ = (
        "_core",
        "_counted",
        "_facets",
        "_index",
        "_is_new",
        "_load_facets",
        "_new_core",
        "_new_index",
        "codec",
        "entity_id",
        "member_bytes",
        "members",
        "memory_bytes",
        "published",
        "ratings",
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
        load_facets: "Callable[[CachedEntity], EntityFacets] | None" = None,
        *,
        is_new: bool,
        codec: OutputCodec,
    ) -> None:
        """`load_facets` reads the entity's facets at their first use; None: none are defined.

        `is_new`: it has no rows. `codec`: of its messages.
        """
        self.codec = codec
        self.entity_id = entity_id
        self.rows = rows
        self.review_count = 0
        self.sentence_count = 0
        self.ratings = NO_RATINGS
        self.sequence: int | None = None
        self.published: Mapping[bytes, bytes] = {}
        self.members: dict[bytes, SummaryMember] = {}
        self.member_bytes = 0
        self.memory_bytes = 0
        self._core: EntityCore | None = None
        self._counted = Counters()
        self._index: Index | None = None
        self._new_index = new_index
        self._new_core = new_core
        self._is_new = is_new
        self._facets: EntityFacets | None = None
        self._load_facets = load_facets

    @property
    def facets(self) -> EntityFacets | None:
        """The entity's facets, if any are defined; the first use reads them. Raises CorruptRow."""
        if self._facets is None and self._load_facets is not None:
            self._facets = self._load_facets(self)
        return self._facets

    @property
    def core(self) -> EntityCore:
        """The entity's algorithm; the first use reads all stored vectors. Raises CorruptRow."""
        if self._core is None:
            core = self._begin_core()
            if not self._is_new:
                core.read()
            return self._set_core(core)
        return self._core

    def load(self) -> None:
        """Read core and facets, unless they are in memory; a flat index does so in the same passes.

        Raises CorruptRow.
        """
        facets = self.facets
        if facets is None or facets.is_loaded:
            return
        if self._core is None and self._new_index is FlatIndex:
            core = self._begin_core()
            facets.load(core)
            self._set_core(core)
        else:
            facets.load()

    def _begin_core(self) -> EntityCore:
        self._index = self._new_index(self.rows.dimension, self.rows.blocks)
        return self._new_core(self._index)

    def _set_core(self, core: EntityCore) -> EntityCore:
        if core.n != self.sentence_count:
            raise CorruptRow(
                describe(self.rows.header_key),
                f"counts {self.sentence_count} sentences, {core.n} are stored",
            )
        self._core = core
        return core

    def member(self, identifier: bytes) -> SummaryMember:
        """A live sentence as of the last micro-batch. Raises CorruptRow if it is not stored."""
        member = self.members.get(identifier)
        if member is None:
            stored = self.rows.text_and_details(identifier)
            member = SummaryMember.of(identifier, *stored, self.codec)
            self.keep_member(member)
        return member

    def members_of(self, identifiers: Iterable[bytes]) -> list[SummaryMember]:
        """As `member`, for several."""
        known = self.members.get
        return [known(identifier) or self.member(identifier) for identifier in identifiers]

    def keep_member(self, member: SummaryMember) -> None:
        """Cache a live sentence, replacing its earlier form."""
        self.drop_member(member.id)
        self.members[member.id] = member
        self.member_bytes += member.memory_bytes

    def drop_member(self, identifier: bytes) -> None:
        """Drop a sentence."""
        member = self.members.pop(identifier, None)
        if member is not None:
            self.member_bytes -= member.memory_bytes

    def keep_members_only(self, members: Iterable[SummaryMember]) -> None:
        """Drop all other sentences."""
        self.members = {member.id: member for member in members}
        self.member_bytes = sum([member.memory_bytes for member in self.members.values()])

    @property
    def is_loaded(self) -> bool:
        """Whether the core is in memory."""
        return self._core is not None

    def count(self, counters: Counters) -> None:
        """Add the core's counts since the last call."""
        if self._core is not None:
            now = self._core.counters
            counters.add(now, self._counted)
            self._counted = now.copy()

    def on_processed(self) -> None:
        """The rows are up to date: release what they contain now."""
        if self._index is not None:
            self._index.on_commit()
        core_bytes = self._core.memory_bytes if self._core is not None else 0
        if self._facets is not None:
            self._facets.on_processed()
            core_bytes += self._facets.memory_bytes
        self.memory_bytes = ENTITY_BYTES + self.member_bytes + core_bytes


class EntityCache:
    """An LRU cache of entities; the limit holds after `on_processed`."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.memory_bytes = 0
        self._entities: OrderedDict[EntityKey, CachedEntity] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entities)

    def get(self, key: EntityKey) -> CachedEntity | None:
        """The entity if it is cached."""
        entity = self._entities.get(key)
        if entity is not None:
            self._entities.move_to_end(key)
        return entity

    def peek(self, key: EntityKey) -> CachedEntity | None:
        """The entity if it is cached, without marking it as used; from any thread."""
        return self._entities.get(key)

    def put(self, key: EntityKey, entity: CachedEntity) -> None:
        """Cache an entity, replacing an earlier incarnation."""
        self.drop(key)
        self._entities[key] = entity
        self.memory_bytes += entity.memory_bytes

    def drop(self, key: EntityKey) -> None:
        """Drop an entity."""
        entity = self._entities.pop(key, None)
        if entity is not None:
            self.memory_bytes -= entity.memory_bytes

    def on_processed(self, touched: Iterable[EntityKey]) -> int:
        """The rows of these entities are written: evict down to the limit; how many it evicted."""
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
