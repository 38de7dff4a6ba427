"""A running worker lists its entities beside the stream, as of the last commits, if need be with an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.drive import Driver
from tests.harness.stream import End, die
from worker.events.publishing import SUMMARIES
from worker.state import CorruptRow
from worker.state.keys import IncarnationKeys, header_key
from worker.state.listing import EntitySearch, Page
from worker.state.rows import Header, PublishedSets, encode_header, encode_published
from worker.storage.databases import Databases
from worker.storage.rows import Look
from worker.stream.queries import EntityLister, NotHere
from worker.stream.surroundings import Threads

LONG = 60.0


def entity_rows(entity_id: str, sentences: int, sequence: int) -> dict[bytes, bytes | None]:
    entity = entity_id.encode()
    key, keys = header_key(entity), IncarnationKeys(entity, 1)
    published = keys.published[SUMMARIES]
    return {
        key: encode_header(key, Header(1, sentences, 1)),
        published: encode_published(published, SUMMARIES, PublishedSets(sequence, [{}])),
        keys.review(b"r"): b"",
    }


class Site:
    """Two partitions with databases, and a lister of their entities."""

    def __init__(self, folder: Path) -> None:
        self.databases = Databases(folder, 32 * 2**20, 2, die)
        self.processor = Driver().processor
        for partition in (0, 1):
            self.databases.open(partition)
            self.processor.begin(partition)
        self.lister = EntityLister(self.processor.begun, self.databases, Threads(), die)

    async def page(self, limit: int = 10, seconds: float = LONG, **search: str) -> Page:
        return await self.lister.read([0, 1], EntitySearch(**search), limit, seconds)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    for number, entity_id in enumerate(("a", "b", "c", "d")):
        made.databases.write(number % 2, entity_rows(entity_id, number, 10 + number))
    yield made
    made.databases.close()


def ids(page: Page) -> list[str]:
    return [entity.entity_id for entity in page.entities]


async def test_a_page_of_all_partitions(site: Site) -> None:
    page = await site.page(limit=3)
    assert [
        (entity.entity_id, entity.sentences, entity.sequence, entity.partition)
        for entity in page.entities
    ] == [("a", 0, 10, 0), ("b", 1, 11, 1), ("c", 2, 12, 0)]
    assert page.after == "c"
    assert ids(await site.page(after="c")) == ["d"]


async def test_a_page_without_time_has_one_entity(site: Site) -> None:
    page = await site.page(seconds=0.0)
    assert (ids(page), page.after) == (["a"], "a")


async def test_it_is_of_the_moment_it_was_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed while a page is read is not on it; what it removes is."""
    scan, scans = Look.scan, []

    def with_commits(look: Look, *arguments: bytes) -> Iterator[tuple[bytes, bytes]]:
        if not scans:
            site.databases.write(1, dict.fromkeys(entity_rows("d", 0, 0)))
            site.databases.write(1, entity_rows("e", 1, 20))
        scans.append(look)
        yield from scan(look, *arguments)

    monkeypatch.setattr(Look, "scan", with_commits)
    assert ids(await site.page()) == ["a", "b", "c", "d"]
    assert ids(await site.page()) == ["a", "b", "c", "e"]


async def test_a_partition_that_is_not_here_or_goes_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Look.scan

    def interrupted(look: Look, *arguments: bytes) -> Iterator[tuple[bytes, bytes]]:
        look.interrupt()
        return scan(look, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Look, "scan", interrupted)
        with pytest.raises(NotHere):
            await site.page()
    site.databases.close([1])
    with pytest.raises(NotHere):
        await site.page()
    assert ids(await site.lister.read([0], EntitySearch(), 10, LONG)) == ["a", "c"]


async def test_rows_that_are_restored_are_not_listed(site: Site) -> None:
    site.processor.forget([1])  # they may end amid a transaction
    with pytest.raises(NotHere):
        await site.page()
    site.processor.begin(1)
    assert ids(await site.page()) == ["a", "b", "c", "d"]


async def test_a_damaged_row_ends_the_worker(site: Site) -> None:
    site.databases.write(0, {header_key(b"b"): b"damaged"})
    with pytest.raises(End) as end:
        await site.page()
    assert isinstance(end.value.cause, CorruptRow)


async def test_a_question_that_cannot_be_answered_ends_nothing(site: Site) -> None:
    """A lone surrogate, as a request's bytes may become one, is in no id."""
    with pytest.raises(UnicodeEncodeError):
        await site.page(prefix="\udcff")
    assert ids(await site.page()) == ["a", "b", "c", "d"]
