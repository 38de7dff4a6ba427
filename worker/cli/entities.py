"""`entities`: the entities, searched and paged."""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.options import check_utf8, data_dir_option, limit_option, url_option
from worker.cli.tables import Column, show
from worker.errors import SetupError
from worker.peers import PeerAnswer, PeerUnreachable, ask
from worker.settings import Settings
from worker.state.listing import EntitySearch, ListedEntity, Page, merged, read_page
from worker.storage.snapshot import some_databases, stored_partition

SHOWN = 50
"""Rows of a table without --limit."""
SEARCH_SECONDS = 10.0
"""Seconds to search for --contains before the table ends and gives the next --after."""
PAGE = 500
"""Entities in one request; a worker answers at most LONGEST_PAGE."""
COLUMNS = (
    Column("entity", "entity_id"),
    Column("reviews", count=True),
    Column("sentences", count=True),
    Column("sequence", drop=1, count=True),
    Column("partition", drop=2, right=True),
)


@click.command(
    "entities",
    cls=Command,
    examples=[
        ("coversumm-worker entities", "the first ones, from the workers"),
        (
            "coversumm-worker entities B00 --after B00X --limit 20",
            "the next twenty whose ids begin with B00",
        ),
        (
            "coversumm-worker entities --contains albany --data-dir /var/lib/coversumm",
            "of a data directory",
        ),
        ("coversumm-worker entities --json | jq -r .entity_id", "the ids of all"),
    ],
)
@click.argument("prefix", default="")
@click.option(
    "--contains", default="", metavar="TEXT", help="Only ids that contain it; reads every id."
)
@click.option("--after", metavar="ID", help="Only ids after this one, the last of a page.")
@limit_option(f"Maximum number. [default: {SHOWN} on a terminal, else all]")
@url_option
@data_dir_option("Read the data directory of a worker, running or stopped, instead.")
@output.json_option
def command(
    prefix: str,
    contains: str,
    after: str | None,
    limit: int | None,
    url: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """List the entities, or those whose ids begin with PREFIX: live reviews and sentences, the
    sequence (the offset of the event that last changed the summary), the partition.

    Reads from a running worker and those of its group that can be reached, or from a data
    directory. Shorter ids come first, ids of one length by their bytes. --contains reads every id,
    on a terminal for ten seconds at most; the last line gives the next --after.
    """
    for name, value in (("PREFIX", prefix), ("--contains", contains), ("--after", after or "")):
        check_utf8(name, value)
    if url is not None and data_dir is not None:
        raise click.UsageError("--url and --data-dir exclude each other.")
    search, listing = EntitySearch(prefix, contains, after), Listing()
    with ExitStack() as opened:
        source = (
            ServedEntities(url or Settings.from_environment().local_url)
            if data_dir is None
            else StoredEntities(data_dir, opened)
        )
        if as_json:
            show(listing.entities(source, search, limit), COLUMNS, as_json)
        else:
            seconds = SEARCH_SECONDS if contains else None
            show(listing.entities(source, search, limit or SHOWN, seconds), COLUMNS, as_json)
            partitions = output.ranges(source.partitions)
            of = f"partitions {partitions}" if source.partitions else "no partition"
            among = f" among the {listing.searched:,} searched" if contains else ""
            more = ""
            if listing.after is not None:
                more = f"; continue with --after {shlex.quote(output.printable(listing.after))}"
            output.say(f"{output.many(listing.shown, 'entities')}{among}, of {of}{more}")
    for address, why in source.missing.items():
        output.note(f"not listed: the worker at {address} with {why}")


class EntitySource(Protocol):
    """Lists entities.

    Attributes:
        partitions: those whose entities are listed.
        missing: by URL of a worker that does not answer, its partitions and the reason.
    """

    partitions: list[int]
    missing: dict[str, str]

    def page(self, search: EntitySearch, limit: int) -> Page:
        """The next page, of at most `limit` entities."""


@dataclass
class Listing:
    """What was listed so far; `after` is the position of the next page, None at the end."""

    shown: int = 0
    searched: int = 0
    after: str | None = None

    def entities(
        self,
        source: EntitySource,
        search: EntitySearch,
        limit: int | None,
        seconds: float | None = None,
    ) -> Iterator[ListedEntity]:
        """List at most `limit` entities, and begin no page after `seconds`; None: all."""
        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            page = source.page(search, min(PAGE, limit or PAGE))
            entities = page.entities if limit is None else page.entities[: limit - self.shown]
            self.shown += len(entities)
            self.searched += page.searched
            is_cut = len(entities) < len(page.entities)
            self.after = entities[-1].entity_id if is_cut else page.after
            yield from entities
            is_late = give_up is not None and time.monotonic() > give_up
            if self.after is None or self.shown == limit or is_late:
                return
            search = replace(search, after=self.after)


class StoredEntities:
    """The entities of a data directory, as of one snapshot. Raises SetupError if it has no state;
    StateError for damaged rows.
    """

    def __init__(self, data_dir: Path, opened: ExitStack) -> None:
        databases = some_databases(data_dir)
        self.partitions = list(databases)
        self.missing: dict[str, str] = {}
        parts = {p: opened.enter_context(stored_partition(p, databases[p])) for p in databases}
        self._rows = {p: part.rows for p, part in parts.items() if part is not None}

    def page(self, search: EntitySearch, limit: int) -> Page:
        """See `EntitySource`."""
        return read_page(self._rows, search, limit)


class ServedEntities:
    """The entities of a running worker and of those workers of its group that can be reached."""

    def __init__(self, url: str) -> None:
        self._first = url
        self._others: dict[str, list[int]] | None = None
        self.partitions: list[int] = []
        self.missing: dict[str, str] = {}

    def page(self, search: EntitySearch, limit: int) -> Page:
        """See `EntitySource`. Raises SetupError if the first worker does not answer."""
        return merged(self._pages(search, limit), limit)

    def _pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        query = {
            "prefix": search.prefix or None,
            "contains": search.contains or None,
            "after": search.after,
            "limit": limit,
        }
        first = answered(self._first, lambda: ask(self._first, "/entities", query))
        yield _page(first)
        if self._others is None:
            self.partitions = list(first["partitions"])
            self._others = dict(first["others"])
        for url, partitions in list(self._others.items()):
            try:
                answer = ask(url, "/entities", query)
                reason = "" if answer.status == 200 else answer.error
            except PeerUnreachable as why:
                reason = str(why)
            if not reason and set(answer.fields["partitions"]) != set(partitions):
                reason = "another worker has this address here"
            if reason:
                self.missing[url] = f"partitions {', '.join(map(str, partitions))} ({reason})"
                del self._others[url]
            else:
                self.partitions = sorted({*self.partitions, *partitions})
                yield _page(answer.fields)


def _page(body: dict[str, Any]) -> Page:
    return Page([ListedEntity(**one) for one in body["entities"]], body["after"], body["searched"])


def answered(url: str, ask: Callable[[], PeerAnswer], missing_status: int = 0) -> dict[str, Any]:
    """The body of a worker's answer; empty for `missing_status`. Raises SetupError."""
    try:
        answer = ask()
        if answer.status == missing_status:
            return {}
        if answer.status != 200:
            reason = answer.fields.get("error") or answer.body[:2000].decode(errors="replace")
            raise SetupError(f"the worker at {url} answers {answer.status}: {reason}")
        body: dict[str, Any] = answer.json()
    except PeerUnreachable as cause:
        raise SetupError(
            f"no worker answers at {url} ({cause}): set --url to a worker, "
            "or --data-dir to a data directory"
        ) from cause
    return body
