"""The entities there are, page by page: of a data directory, or of a running worker and the others
of its group.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from worker.errors import SetupError
from worker.peers import PeerUnreachable, ask
from worker.state.listing import LONGEST_PAGE, EntitySearch, ListedEntity, Page, merged, read_page
from worker.storage.snapshot import some_databases, stored_partition

PATH = "/entities"


class StoredEntities:
    """Those of a data directory, its worker running or stopped. Raises SetupError where
    there is no state.
    """

    def __init__(self, data_dir: Path) -> None:
        self._databases = some_databases(data_dir)
        self.partitions = list(self._databases)
        self.missing: dict[str, str] = {}

    def pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        """Pages of at most `limit`, all as of one moment. Raises StateError where files or rows are
        damaged.
        """
        with ExitStack() as views:
            opened = {
                p: views.enter_context(stored_partition(p, path))
                for p, path in self._databases.items()
            }
            rows = {p: part.rows for p, part in opened.items() if part is not None}
            yield from _all_pages(search, lambda wanted: read_page(rows, wanted, limit))


class ServedEntities:
    """Those of a running worker and, as far as they can be reached, of the others of its group.

    Attributes:
        partitions: whose entities are listed.
        missing: by URL of a worker that does not answer, which partitions it has and why.
    """

    def __init__(self, url: str) -> None:
        self._first = url
        self._others: dict[str, list[int]] | None = None
        self.partitions: list[int] = []
        self.missing: dict[str, str] = {}

    def pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        """Pages of at most `limit`. Raises SetupError where the first worker does not
        answer.
        """
        size = min(limit, LONGEST_PAGE)
        yield from _all_pages(search, lambda wanted: merged(self._ask_all(wanted, size), size))

    def _ask_all(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        try:
            answer = ask(self._first, PATH, _query(search, limit))
        except PeerUnreachable as why:
            raise SetupError(
                f"no worker answers at {self._first} ({why}): name one by --url, or a data directory by --data-dir"
            ) from why
        if answer.status != 200:
            raise SetupError(f"the worker at {self._first} answers {answer.status}: {answer.error}")
        first = answer.fields
        yield _page(first)
        if self._others is None:
            self.partitions = list(first["partitions"])
            self._others = dict(first["others"])
        for url, partitions in list(self._others.items()):
            if body := self._ask_other(url, partitions, search, limit):
                yield _page(body)
            else:
                del self._others[url]

    def _ask_other(
        self, url: str, partitions: list[int], search: EntitySearch, limit: int
    ) -> dict[str, Any] | None:
        """The answer of one who should have these partitions; what goes by the same address here
        may be another worker.
        """
        try:
            answer = ask(url, PATH, _query(search, limit))
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


def _query(search: EntitySearch, limit: int) -> dict[str, str | int | None]:
    return {
        "prefix": search.prefix or None,
        "contains": search.contains or None,
        "after": search.after,
        "limit": limit,
    }


def _page(body: dict[str, Any]) -> Page:
    return Page([ListedEntity(**one) for one in body["entities"]], body["after"], body["searched"])
