"""Entities as running workers list and show them."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from worker.errors import SetupError
from worker.processing.entity_view import Extent
from worker.settings import Settings
from worker.state.listing import EntitySearch, ListedEntity, Page, merged
from worker.web.peers import PeerUnreachable, Query, ask

PAGE = 500  # entities in one request; a worker answers at most LONGEST_PAGE


class ServedEntities:
    """The entities of a running worker and of those workers of its group that can be reached.

    Attributes:
        partitions: those that were read.
        missing: by URL of a worker that does not answer its partitions and the reason.
        listed: the number of entities so far; `searched`: of ids that were read for them.
        after: the position of the next page; None at the end.
    """

    def __init__(self, url: str) -> None:
        self._first = url
        self._others: dict[str, list[int]] | None = None
        self.partitions: list[int] = []
        self.missing: dict[str, str] = {}
        self.listed = self.searched = 0
        self.after: str | None = None

    def entities(
        self, search: EntitySearch, limit: int | None, seconds: float | None = None
    ) -> Iterator[ListedEntity]:
        """List at most `limit` entities, and begin no page after `seconds`; None: all. Raises
        SetupError without an answer.
        """
        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            size = min(PAGE, limit or PAGE)
            page = merged(self._pages(search, size), size)
            found = page.entities if limit is None else page.entities[: limit - self.listed]
            self.listed += len(found)
            self.searched += page.searched
            self.after = found[-1].entity_id if len(found) < len(page.entities) else page.after
            yield from found
            is_late = give_up is not None and time.monotonic() > give_up
            if self.after is None or self.listed == limit or is_late:
                return
            search = replace(search, after=self.after)

    def _pages(self, search: EntitySearch, limit: int) -> Iterator[Page]:
        query = {
            "prefix": search.prefix or None,
            "contains": search.contains or None,
            "after": search.after,
            "limit": limit,
        }
        first = answered(self._first, "/entities", query)
        yield msgspec.convert(first, Page)
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
                yield msgspec.convert(answer.fields, Page)


def local_worker(settings: Settings) -> str:
    """The URL of the worker here with these settings. Raises SetupError for another group's."""
    url = settings.local_url
    with suppress(PeerUnreachable):  # the next request says it
        group = ask(url, "/status").fields.get("group", settings.app_id)
        if group != settings.app_id:
            raise SetupError(
                f"the worker at {url} is of the group {group}, not of "
                f"COVERSUMM_APP_ID={settings.app_id}: set COVERSUMM_WEB_PORT to the port of this "
                f"group's worker, or give --url {url}"
            )
    return url


UNKNOWN = "there is no such entity"  # the error of a worker begins so


def answered(
    url: str, path: str, query: Query | None = None, *, of_entity: bool = False
) -> dict[str, Any]:
    """The body of a worker's answer; `of_entity`: empty without it. Raises SetupError."""
    try:
        answer = ask(url, path, query)
        if of_entity and answer.status == 404 and answer.error.startswith(UNKNOWN):
            return {}
        if answer.status != 200:
            reason = answer.fields.get("error") or answer.body[:2000].decode(errors="replace")
            again = f"; ask again in {answer.retry_after} s" if answer.retry_after else ""
            raise SetupError(f"the worker at {url} answers {answer.status}: {reason}{again}")
        body: dict[str, Any] = answer.json()
    except PeerUnreachable as cause:
        raise SetupError(f"no worker answers at {url} ({cause}): set --url to a worker") from cause
    return body


def listed_in(entity: str, url: str) -> str:
    """The partition where workers list the entity, or an empty text."""
    with suppress(SetupError):  # no worker answers
        for listed in ServedEntities(url).entities(EntitySearch(prefix=entity), 1):
            if listed.entity_id == entity:
                return str(listed.partition)
    return ""


def served_view(url: str, entity: str, view: str, extent: Extent | None) -> dict[str, Any]:
    """The view of the entity that its owner serves; empty if it is unknown. Raises SetupError."""
    query: dict[str, object] = {}
    if extent is not None and extent.language is not None:
        query["language"] = extent.language
    if extent is not None and view != "facets":
        query["view"] = view
        query |= {name: n for name in ("sentences", "words") if (n := getattr(extent, name))}
        query["threshold"] = f"{extent.threshold:.9f}"
    return served(url, entity, "facets" if view == "facets" else "summary", query)


def served(url: str, entity: str, kind: str, query: Mapping[str, object]) -> dict[str, Any]:
    """The body that the entity's owner answers at this address; empty if it is unknown. Raises
    SetupError.
    """
    is_dots = entity in (".", "..")  # clients remove these from a path
    query = {"id": entity, **query} if is_dots else query
    name = "" if is_dots else quote(entity, safe="")
    path = f"/entities/{name}/{kind}{'?' if query else ''}{urlencode(query)}"
    return answered(url, path, of_entity=True)
