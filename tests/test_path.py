"""A worker behind a path of an Ingress: which addresses answer below it, and where links lead."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from tests.harness.page_site import Site
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.settings import Settings
from worker.web.server import PROBES, Runner


def asked(site: Site, path: str, *paths: str) -> list[tuple[int, Any, bytes]]:
    """Status, headers and body of each of `paths`, as written, from a worker with `path`."""

    async def run() -> list[tuple[int, Any, bytes]]:
        runner = Runner(site.application(path), path)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        found = []
        try:
            async with ClientSession() as client:
                for address in paths:
                    url = URL(origin + address, encoded=True)
                    async with client.get(url, allow_redirects=False) as answer:
                        found.append((answer.status, answer.headers, await answer.read()))
        finally:
            await runner.cleanup()
        return found

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


BOTH = (
    *("/", "/status", "/entities?limit=7", "/entities/x/summary?view=short", "/widget.js"),
    *("/page/status", "/page/page.js", "/page/entities?contains=x", "/page/entities/x/history"),
    *("/entities//summary?id=..", "/nowhere", "/entities/%ff/summary", "//status"),
)


@pytest.mark.parametrize("path", ["/reviews", "/a/b-c.d"])
def test_all_but_probes_answers_the_same_with_the_path_and_without(path: str) -> None:
    site = Site()
    plain = asked(site, "", *BOTH)
    for prefix in ("", path):
        found = asked(site, path, *(prefix + spelling for spelling in BOTH))
        assert [(answer[0], answer[2]) for answer in found] == [
            (answer[0], answer[2]) for answer in plain
        ]
    assert [answer[0] for answer in plain].count(200) == 9
    probes = sorted(PROBES)
    assert [answer[0] for answer in asked(site, path, *probes)] == [200] * 3
    hidden = [*probes, "/%68ealthz", "//metrics"]
    assert [name[0] for name in asked(site, path, *(path + name for name in hidden))] == [404] * 5


def test_links_of_the_page_need_a_slash_at_the_end() -> None:
    ((status, headers, _),) = asked(Site(), "/reviews", "/reviews")
    assert (status, headers["Location"]) == (308, "/reviews/")
    others = asked(Site(), "/reviews", "/reviewsx", "/reviewsx/", "/review/", "/reviews/reviews/")
    assert [answer[0] for answer in others] == [404] * 4


@pytest.mark.parametrize("entity_id", ["reviews", "/reviews", "a/b", "%2F", "é", "x/summary"])
def test_an_id_is_what_it_is_below_the_path(entity_id: str) -> None:
    site = Site()
    asked(site, "/reviews", f"/reviews/entities/{quote(entity_id, safe='')}/summary")
    assert site.state.asked == [entity_id]


def test_a_path_is_checked() -> None:
    def parsed(text: str) -> str:
        return Settings.from_environment({"COVERSUMM_WEB_PATH": text}).web_path

    right = {"/": "", "/reviews": "/reviews", "/a/b/": "/a/b", "/entitiesx": "/entitiesx"}
    assert {text: parsed(text) for text in right} == right
    wrong = (
        "reviews",
        "//",
        "/a//b",
        "/a/../b",
        "/..",
        "/a b",
        "/é",
        "/%41",
        "/a?b",
        "https://a/b",
    )
    for text in (*wrong, "/entities", "/page/x", "/healthz", "/metrics/", "/widget.js"):
        with pytest.raises(SetupError, match="COVERSUMM_WEB_PATH"):
            parsed(text)
