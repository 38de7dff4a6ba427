"""Entities from a data directory, or from the running workers of a group."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from worker.errors import SetupError
from worker.peers import PeerAnswer, PeerUnreachable, ask, ask_owner
from worker.processing.entity_view import Extent
from worker.state.listing import LONGEST_PAGE, EntitySearch, ListedEntity, Page, merged, read_page
from worker.storage.snapshot import some_databases, stored_partition

PATH = "/entities"


class StoredEntities:
    """The entities of a data directory. Raises SetupError if it has no state."""

    def __init__(self, data_dir: Path) -> None:
        self._databases = some_databases(data_dir)
        self.partitions = list(self._databases)
        self.missing: dict[str, str] = {}

    def pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        """Pages of at most `limit`, from one snapshot. Raises StateError for damaged rows."""
        with ExitStack() as views:
            opened = {
                p: views.enter_context(stored_partition(p, path))
                for p, path in self._databases.items()
            }
            rows = {p: part.rows for p, part in opened.items() if part is not None}
            yield from _all_pages(search, lambda page: read_page(rows, page, limit))


class ServedEntities:
    """The entities of a running worker and of those workers of its group that can be reached.

    Attributes:
        partitions: those whose entities are listed.
        missing: by URL of a worker that does not answer, its partitions and the reason.
    """

    def __init__(self, url: str) -> None:
        self._first = url
        self._others: dict[str, list[int]] | None = None
        self.partitions: list[int] = []
        self.missing: dict[str, str] = {}

    def pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        """Pages of at most `limit`. Raises SetupError if the first worker does not answer."""
        size = min(limit, LONGEST_PAGE)
        yield from _all_pages(search, lambda page: merged(self._ask_all(page, size), size))

    def _ask_all(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        query = {
            "prefix": search.prefix or None,
            "contains": search.contains or None,
            "after": search.after,
            "limit": limit,
        }
        first = _json(self._first, lambda: ask(self._first, PATH, query))
        yield _page(first)
        if self._others is None:
            self.partitions = list(first["partitions"])
            self._others = dict(first["others"])
        for url, partitions in list(self._others.items()):
            if body := self._ask_other(url, partitions, query):
                yield _page(body)
            else:
                del self._others[url]

    def _ask_other(
        self, url: str, partitions: list[int], query: dict[str, str | int | None]
    ) -> dict[str, Any] | None:
        """The answer of the worker that has these partitions; None if another worker answers."""
        try:
            answer = ask(url, PATH, query)
        except PeerUnreachable as why:
            reason = str(why)
        else:
            body = answer.fields
            if answer.status == 200 and set(body["partitions"]) == set(partitions):
                self.partitions = sorted({*self.partitions, *partitions})
                return body
            reason = (
                answer.error if answer.status != 200 else "another worker has this address here"
            )
        self.missing[url] = f"partitions {', '.join(map(str, partitions))} ({reason})"
        return None


def _all_pages(search: EntitySearch, read: Callable[[EntitySearch], Page]) -> Iterator[Page]:
    while True:
        page = read(search)
        yield page
        if page.after is None:
            return
        search = replace(search, after=page.after)


def _page(body: dict[str, Any]) -> Page:
    return Page([ListedEntity(**one) for one in body["entities"]], body["after"], body["searched"])


def served_view(url: str, entity: str, view: str, extent: Extent | None) -> dict[str, Any]:
    """The view of the entity that its owner serves; empty if it is unknown.

    Raises SetupError.
    """
    query: dict[str, object] = {"id": entity} if entity in (".", "..") else {}
    if extent is not None:
        query["view"] = view
        query |= {name: n for name in ("sentences", "words") if (n := getattr(extent, name))}
        query["threshold"] = f"{extent.threshold:.9f}"
    name = "" if "id" in query else quote(entity, safe="")
    kind = "facets" if view == "facets" else "summary"
    path = f"{PATH}/{name}/{kind}{'?' if query else ''}{urlencode(query)}"
    return _json(url, lambda: ask_owner(url, path), missing_status=404)


def _json(url: str, ask: Callable[[], PeerAnswer], missing_status: int = 0) -> dict[str, Any]:
    """The body of an answer; empty for `missing_status`. Raises SetupError."""
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
