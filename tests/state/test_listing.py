"""Entities listed and searched: all of them once, in key order, whatever rows lie between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.events.publishing import SUMMARIES
from worker.state import CorruptRow, MemoryRows
from worker.state.keys import IncarnationKeys, garbage_key, header_key
from worker.state.listing import EntitySearch, Page, find_entities, merged, order, read_page
from worker.state.rows import Header, PublishedSets, encode_header, encode_published

IDS = st.text(st.sampled_from("abB0é\x00\uffff"), max_size=4)


class CountedRows(MemoryRows):
    """Counts the seeks."""

    seeks = 0

    def scan(self, prefix, start=None):
        self.seeks += 1
        return super().scan(prefix, start)


def stored(entities, deleted=()):
    """Rows of entities with many reviews each; of deleted ones some rows that are still to be
    removed.
    """
    rows = CountedRows()
    for number, entity_id in enumerate(entities):
        entity = entity_id.encode()
        keys = IncarnationKeys(entity, number)
        header = header_key(entity)
        values = {header: encode_header(header, Header(number + 1, 10 * number, number))}
        if number % 2:
            key = keys.published[SUMMARIES]
            values[key] = encode_published(key, SUMMARIES, PublishedSets(100 + number, [{}]))
        values |= {keys.review(b"r%d" % i): b"" for i in range(20)}
        values |= {IncarnationKeys(entity, number + 1000).review(b"old"): b""}
        rows.write(values)
    for entity_id in deleted:
        rows.write(
            {
                IncarnationKeys(entity_id.encode(), 5).review(b"r"): b"",
                garbage_key(entity_id.encode(), 5): b"",
            }
        )
    rows.write({b"A": b"", b"F": b"", b"Z": b""})
    return rows


@given(
    ids=st.sets(IDS, max_size=12),
    deleted=st.sets(IDS, max_size=4),
    prefix=IDS,
    after=st.none() | IDS,
)
def test_exactly_those_with_the_prefix_beyond_the_last(ids, deleted, prefix, after):
    rows = stored(sorted(ids), deleted - ids)
    encoded = None if after is None else after.encode()
    found = [entity.decode() for entity, _ in find_entities(rows, prefix.encode(), encoded)]
    wanted = [
        identifier
        for identifier in ids
        if identifier.startswith(prefix) and (after is None or order(identifier) > order(after))
    ]
    assert found == sorted(wanted, key=order)
    lengths = {len(identifier.encode()) for identifier in ids | deleted}
    assert rows.seeks <= len(ids | deleted) + 2 * len(lengths) + 2, (
        "as many seeks as entities, however many rows"
    )


@given(
    shares=st.lists(st.sets(IDS, max_size=8), min_size=1, max_size=3),
    contains=st.sampled_from(["", "a", "B0", "é"]),
    limit=st.integers(1, 5),
    patience=st.integers(0, 6),
)
def test_pages_of_several_partitions_give_each_once(shares, contains, limit, patience):
    """Whatever the pages' length, and wherever time runs out."""
    seen: set[str] = set()
    parts = {}
    for number, share in enumerate(shares):
        parts[number] = stored(sorted(share - seen))
        seen |= share
    found, after = [], None
    for _ in range(100):
        page = read_page(
            parts,
            EntitySearch(contains=contains, after=after),
            limit,
            iter([True] * patience + [False] * 100).__next__,
        )
        assert len(page.entities) <= limit
        found += [entity.entity_id for entity in page.entities]
        after = page.after
        if after is None:
            break
    assert found == sorted((identifier for identifier in seen if contains in identifier), key=order)


def test_what_is_told_of_an_entity():
    page = read_page({3: stored(["a", "b"])}, EntitySearch(), 10)
    assert [
        (entity.entity_id, entity.reviews, entity.sentences, entity.sequence, entity.partition)
        for entity in page.entities
    ] == [("a", 1, 0, None, 3), ("b", 2, 10, 101, 3)]
    assert (page.after, page.searched) == (None, 2)


def test_an_entity_in_two_partitions_is_on_one_page():
    """Its producers chose the partitions; the next page goes on after the id."""
    page = read_page({0: stored(["a", "b"]), 1: stored(["a"])}, EntitySearch(), 1)
    assert [(entity.entity_id, entity.partition) for entity in page.entities] == [
        ("a", 0),
        ("a", 1),
    ]
    assert page.after == "a"


@given(
    shares=st.lists(st.sets(IDS, max_size=8), min_size=1, max_size=3),
    limit=st.integers(1, 5),
    patience=st.integers(0, 6),
)
def test_those_with_the_most_reviews_of_several_workers_first(shares, limit, patience):
    """The greatest of all pages are the greatest of all, wherever time runs out."""
    workers, seen, reviews = [], set(), {}
    for number, share in enumerate(shares):
        mine = sorted(share - seen)
        workers.append({number: stored(mine)})
        reviews |= {entity_id: at + 1 for at, entity_id in enumerate(mine)}
        seen |= share
    found, after = [], None
    for _ in range(100):
        search = EntitySearch(after=after, by_reviews=True)
        times = iter([True] * patience + [False] * 100)
        pages = [read_page(parts, search, limit, times.__next__) for parts in workers]
        page = merged(pages, limit, search.rank())
        assert len(page.entities) <= limit
        found += page.entities
        after = page.after
        if after is None:
            break
    assert {entity.entity_id: entity.reviews for entity in found}.items() <= reviews.items()
    greatest = sorted((entity.reviews for entity in found), reverse=True)[:limit]
    assert greatest == sorted(reviews.values(), reverse=True)[:limit]


def test_the_ids_most_like_another():
    rows = {0: stored(sorted(["hotel-1", "hotel-2", "B00X", "villa", "x" * 300]))}
    page = read_page(rows, EntitySearch(near="Hotle-2"), 2)
    assert [entity.entity_id for entity in page.entities] == ["hotel-2", "hotel-1"]
    assert (page.after, page.searched) == (None, 5)


def test_a_key_that_is_none_is_told():
    rows = MemoryRows({header_key(b"abcde")[:-3]: b""})
    with pytest.raises(CorruptRow):
        list(find_entities(rows))


@given(
    shares=st.lists(st.sets(IDS, max_size=8), min_size=1, max_size=3),
    limits=st.lists(st.integers(1, 6), min_size=3, max_size=3),
    limit=st.integers(1, 6),
)
def test_pages_of_several_workers_are_one(shares, limits, limit):
    """Each worker's page ends where it ends; nothing beyond the first end is shown, so nothing is
    passed over.
    """
    seen: set[str] = set()
    workers = []
    for number, share in enumerate(shares):
        workers.append({number: stored(sorted(share - seen))})
        seen |= share
    found, after = [], None
    for _ in range(100):
        pages = [
            read_page(parts, EntitySearch(after=after), most)
            for parts, most in zip(workers, limits, strict=False)
        ]
        page = merged(pages, limit)
        assert len(page.entities) <= limit
        found += [entity.entity_id for entity in page.entities]
        after = page.after
        if after is None:
            break
    assert found == sorted(seen, key=order)
    assert merged([Page([], None, 0)], 1) == Page([], None, 0)
