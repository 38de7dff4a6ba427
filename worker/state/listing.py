"""The entities of a partition without their reviews: listed and searched, a page at a time.

Rows are ordered by the length of the entity's id and then by its bytes, and an entity's rows are
adjacent. One seek past an entity's rows finds the next entity; one or two seeks for each length of
id find the ids with a prefix. A page costs as many seeks as entities searched.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from operator import itemgetter

from worker.events.publishing import SUMMARIES
from worker.state.errors import CorruptRow
from worker.state.keys import ENTITY, IncarnationKeys, describe, header_key, parse_entity_key
from worker.state.rows import Header, decode_header, decode_published
from worker.state.store import Rows, successor

LONGEST_PAGE = 1000
LONGEST_LIKE = 200  # characters of an id that are compared with one that it may be like


@dataclass(frozen=True, slots=True)
class EntitySearch:
    """A search for entities that meet every condition, after `after` in key order.

    With `by_reviews`, or `near` to an id, a page has the first ones in that order of all searched.
    """

    prefix: str = ""
    contains: str = ""
    after: str | None = None
    by_reviews: bool = False
    near: str | None = None

    def rank(self) -> "Rank | None":
        """The order, the greatest first; None for that of keys."""
        if self.near is None:
            return (lambda listed: listed.reviews) if self.by_reviews else None
        matcher = SequenceMatcher(None, "", self.near.lower(), autojunk=False)

        def likeness(listed: ListedEntity) -> float:
            matcher.set_seq1(listed.entity_id[:LONGEST_LIKE].lower())
            return matcher.ratio()

        return likeness


@dataclass(frozen=True, slots=True)
class ListedEntity:
    """An entity; `sequence` is the offset of its last published change, or None."""

    entity_id: str
    sentences: int
    reviews: int
    sequence: int | None
    partition: int


Rank = Callable[[ListedEntity], float]


@dataclass(frozen=True, slots=True)
class Page:
    """Some entities of `searched` ones; the next page starts after `after`, None at the end."""

    entities: list[ListedEntity]
    after: str | None
    searched: int


def order(entity_id: str) -> tuple[int, bytes]:
    """Sort key of entities."""
    encoded = entity_id.encode()
    return len(encoded), encoded


def read_page(
    partitions: Mapping[int, Rows],
    search: EntitySearch,
    limit: int,
    has_time: Callable[[], bool] = lambda: True,
) -> Page:
    """The next entities of these partitions together, at most `limit`.

    The page ends early once `has_time` returns false. Raises CorruptRow, UnknownFormat.
    """
    after = None if search.after is None else search.after.encode()
    found = heapq.merge(
        *(
            _numbered(number, rows, search.prefix.encode(), after)
            for number, rows in partitions.items()
        )
    )
    rank = search.rank()
    entities: list[tuple[float, ListedEntity]] = []
    searched, last, after_page = 0, None, None
    for (_, entity), number, header in found:
        is_full = rank is None and len(entities) >= limit
        if entity != last and last is not None and (is_full or not has_time()):
            after_page = last.decode()
            break
        searched, last = searched + 1, entity
        entity_id = entity.decode()
        if search.contains in entity_id:
            sequence = _sequence(partitions[number], entity, header)
            listed = ListedEntity(entity_id, header.sentences, header.reviews, sequence, number)
            entities.append((0 if rank is None else rank(listed), listed))
    if rank is not None:
        entities = heapq.nlargest(limit, entities, key=itemgetter(0))
    return Page([listed for _, listed in entities], after_page, searched)


def find_entities(
    rows: Rows, prefix: bytes = b"", after: bytes | None = None
) -> Iterator[tuple[bytes, Header]]:
    """Entities with the prefix and keys after `after`, in key order. Raises CorruptRow,
    UnknownFormat.
    """
    start = header_key(prefix)
    if after is not None:
        start = max(start, _beyond(after))
    while (found := next(rows.scan(ENTITY, start), None)) is not None:
        key, value = found
        entity = _entity(key)
        # of those with the prefix and this length of id
        first = header_key(bytes(len(entity)))[:5] + prefix
        if key < first:
            start = first
        elif not entity.startswith(prefix):
            start = header_key(bytes(len(entity) + 1))[:5] + prefix
        else:
            # else rows of a deleted entity, still to be removed
            if len(key) == len(header_key(entity)):
                yield entity, decode_header(key, value)
            start = _beyond(entity)


def _numbered(
    number: int, rows: Rows, prefix: bytes, after: bytes | None
) -> Iterator[tuple[tuple[int, bytes], int, Header]]:
    for entity, header in find_entities(rows, prefix, after):
        yield (len(entity), entity), number, header


def _beyond(entity: bytes) -> bytes:
    """The smallest key beyond all rows of the entity."""
    beyond = successor(header_key(entity))
    assert beyond is not None
    return beyond


def _entity(key: bytes) -> bytes:
    try:
        return parse_entity_key(key).entity
    except ValueError as error:
        raise CorruptRow(describe(key), str(error)) from error


def _sequence(rows: Rows, entity: bytes, header: Header) -> int | None:
    key = IncarnationKeys(entity, header.incarnation).published[SUMMARIES]
    value = rows.get(key)
    return None if value is None else decode_published(key, SUMMARIES, value).sequence


def merged(pages: Iterable[Page], limit: int, rank: Rank | None = None) -> Page:
    """One page from several workers' pages of one search, ending at the least complete one."""
    pages = list(pages)
    ends = [page.after for page in pages if page.after is not None]
    end = min(ends, key=order, default=None)
    known = sorted(
        (entity for page in pages for entity in page.entities),
        key=lambda entity: order(entity.entity_id),
    )
    kept = [listed for listed in known if end is None or order(listed.entity_id) <= order(end)]
    searched = sum(page.searched for page in pages)
    if rank is not None:
        return Page(heapq.nlargest(limit, kept, key=rank), end, searched)
    if len(kept) > limit:
        return Page(kept[:limit], kept[limit - 1].entity_id, searched)
    return Page(kept, end, searched)
