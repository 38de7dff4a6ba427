"""The OpenAPI document: it is valid, has every route and parameter of a worker's web server, and
the answers of one are as it says, each of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from yarl import URL

from docs.build.openapi import REFERENCE, document, openapi_yaml
from docs.build.render import ROOT
from tests.harness.bodies import BODY
from tests.harness.page_site import Site, change, get, served
from worker.events import Record
from worker.events.json_codec import encode
from worker.published.history import PublishedChange, steps
from worker.published.publication import publications
from worker.web.page import watchers
from worker.web.page.history import ChangeHistory

DOCUMENT = document()
PATHS: dict[str, Any] = {path: of_path["get"] for path, of_path in DOCUMENT["paths"].items()}
AWAY = "http://127.0.0.1:9"


def closed(node: Any) -> Any:
    """A schema whose objects have no other members than its own, so that one which the document
    does not name is an error.
    """
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: closed(item) for name, item in node.items()}
    if "properties" in node and isinstance(node["properties"], dict):
        node.setdefault("additionalProperties", False)
    return node


SCHEMAS = closed(DOCUMENT["components"])


def errors(schema: dict[str, Any], value: Any) -> list[str]:
    """What a value lacks or has too much, by a schema of the document."""
    validator = Draft202012Validator({**closed(schema), "components": SCHEMAS})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def ready(_site: Site) -> None:
    pass


def not_ready(site: Site) -> None:
    site.state.is_ready = False


def elsewhere(site: Site) -> None:
    site.state.owner = (False, AWAY)


def with_history(site: Site) -> None:
    """Two changes and a deletion, as a topic has them."""
    values = [encode(BODY), encode(BODY), None]
    found = [
        PublishedChange.of(step)
        for number, value in enumerate(values)
        for step in steps(publications(Record("out", 0, number, 0, b"x", value)))
    ]

    async def read(*_: Any) -> ChangeHistory:
        return ChangeHistory(found, None, 3)

    site.history.read = read  # type: ignore[method-assign]


def without_history(site: Site) -> None:
    site.history.fails = True


def without_page(site: Site) -> None:
    site.has_page = False


def views(path: str) -> Iterator[tuple[Callable[[Site], None], str, int, str]]:
    """What is asked of the views at a path: by a state of the worker the path, the status, and the
    component of the body.
    """
    for view, name in (
        ("set", "SummaryView"),
        ("short", "ShortView"),
        ("facets", "FacetsView"),
        ("overview", "Overview"),
    ):
        for suffix in ("summary", "facets"):
            yield ready, f"{path}/x/{suffix}?view={view}", 200, name
    queries = ("view=overview&language=fr&words=9&sentences=3&threshold=0.5", "view=facets")
    for suffix in ("summary", "facets"):
        for query in queries:
            yield ready, f"{path}/x/{suffix}?{query}", 200, ""
        yield ready, f"{path}/x/{suffix}?view=none", 400, "Error"
        yield ready, f"{path}/y/{suffix}", 404, "Error"
        yield ready, f"{path}//{suffix}?id=..", 404, "Error"
        yield not_ready, f"{path}/x/{suffix}", 503, "Error"


ASKED = [
    (ready, "/", 200, "text/html"),
    (without_page, "/", 200, "text/plain"),
    (ready, "/healthz", 200, "Health"),
    (ready, "/readyz", 200, "Readiness"),
    (not_ready, "/readyz", 503, "Readiness"),
    (ready, "/metrics", 200, "text/plain"),
    *views("/entities"),
    *(
        (state, f"/entities/{path}", status, name)
        for state, path, status, name in (
            (ready, "x/ask?q=Is+it+quiet&verified=true&since=2026-11-20&until=x", 400, "Error"),
            (ready, "x/ask?q=Is+it+quiet&rating_min=2&rating_max=4", 200, "Answer"),
            (ready, "x/ask?vector=AAAA", 400, "Error"),
            (ready, "x/ask?vector=AACAPw==", 400, "Error"),
            (ready, "y/ask?q=Is+it+quiet&sentences=3&language=en&country=NL", 404, "Error"),
            (lambda at: setattr(at.state, "is_busy", True), "x/ask?q=Is+it+quiet", 429, "Error"),
            (elsewhere, "/ask?q=Is+it+quiet&id=..&here=1", 503, "Error"),
            (ready, "x/trend?by=quarter", 200, "TrendView"),
            (ready, "x/trend?by=week", 400, "Error"),
            (ready, "y/trend", 404, "Error"),
            (elsewhere, "/trend?id=..&here=1", 503, "Error"),
        )
    ),
    (elsewhere, "/entities/x/summary?view=short", 503, "Error"),
    (elsewhere, "/entities/x/facets?here=1", 503, "Error"),
    (elsewhere, "/entities/x/summary?here=1", 503, "Error"),
    *(
        (state, f"{path}{query}", status, name)
        for path, listed in (("/entities", "OwnEntities"), ("/page/entities", "AllEntities"))
        for state, query, status, name in (
            (ready, "?prefix=x&contains=x&after=a&limit=3", 200, listed),
            (ready, "?limit=0", 400, "Error"),
            (not_ready, "", 503, "Error"),
        )
    ),
    (lambda site: setattr(site.state, "others", lambda: {AWAY: [2]}), "/page/entities", 200, ""),
    (ready, "/page/page.js", 200, "text/javascript"),
    (ready, "/widget.js", 200, "text/javascript"),
    (ready, "/page/page.css", 200, "text/css"),
    (ready, "/page/icon.svg", 200, "image/svg+xml"),
    (with_history, "/page/entities/x/history?before=7", 200, "ChangeHistory"),
    (with_history, "/page/entities//history?id=..&facets=1", 200, "ChangeHistory"),
    (ready, "/page/entities/x/history?before=x", 400, "Error"),
    (without_history, "/page/entities/x/history?facets=1", 400, "Error"),
    (without_history, "/page/entities/x/history", 503, "Error"),
    (ready, "/page/entities//changes", 404, "Error"),
    (elsewhere, "/page/entities/x/changes?here=1", 503, "Error"),
]


def documented(path: str) -> str:
    """The document's path of an address."""
    parts = path.partition("?")[0].split("/")
    if "entities" in parts[:-1]:
        parts[-2] = "{id}"
    elif parts[1:2] == ["page"] and "." in parts[-1]:
        parts[-1] = "{file}"
    return "/".join(parts)


def test_it_is_valid_and_the_file_is_as_generated() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    broken = document()
    del broken["paths"]["/status"]["get"]["responses"]["200"]["description"]
    assert any(OpenAPIV31SpecValidator(broken).iter_errors())
    text = (ROOT / "docs" / "reference" / "openapi.yaml").read_text("utf-8")
    assert text == openapi_yaml(), "run `make docs`"
    assert yaml.safe_load(text) == DOCUMENT


def test_every_route_is_in_it_and_no_other() -> None:
    routes = set()
    for site in (Site(), Site()):
        application = site.application()
        routes |= {resource.canonical for resource in application.router.resources()}
        site.has_page = False
    files = PATHS["/page/{file}"]["parameters"][0]["schema"]["enum"]
    written = {f"/page/{file}" for file in files}
    assert routes == (PATHS.keys() - {"/page/{file}"}) | written
    assert {documented(path) for path in routes} == PATHS.keys()


@pytest.mark.parametrize(("state", "path", "status", "what"), ASKED)
def test_answers_are_as_documented(
    state: Callable[[Site], None], path: str, status: int, what: str
) -> None:
    site = Site()
    state(site)
    ((found, headers, body),) = get(site, path)
    assert found == status
    answer = PATHS[documented(path)]["responses"][str(status)]
    media = headers["Content-Type"].partition(";")[0]
    schema = answer["content"][media]["schema"]
    assert errors(schema, body) == []
    if media != "application/json":
        assert media == what
    elif what:
        named = {"$ref": REFERENCE.format(name=what)}
        assert named in schema.get("anyOf", [schema])
        assert errors(named, body) == []


def bodies(path: str) -> Iterator[tuple[str, str, str]]:
    """The path with each status and each body that it may have, or its media type."""
    for status, answer in PATHS[path]["responses"].items():
        for media, content in answer.get("content", {"": {"schema": {}}}).items():
            refs = content["schema"].get("anyOf", [content["schema"]])
            for ref in refs if media == "application/json" else [{}]:
                what = ref.get("$ref", "").rpartition("/")[2]
                yield path, status, what or media


def test_every_documented_answer_was_asked_for() -> None:
    """The rest have tests of their own."""
    asked = {(documented(path), str(status), what) for _, path, status, what in ASKED if what}
    rest = {body for path in PATHS for body in bodies(path) if body[1] != "default"} - asked
    assert rest == {
        ("/status", "200", "Status"),
        ("/page/status", "200", "Status"),
        ("/page/changes", "200", "text/event-stream"),
        ("/page/changes", "503", "Error"),
        ("/page/entities/{id}/changes", "200", "text/event-stream"),
    }


def test_every_parameter_that_the_server_reads_is_in_it() -> None:
    """And no other."""
    read: dict[str, set[str]] = {path: set() for path in PATHS}

    class Noted(dict[str, str]):
        """A query that notes what it is asked for."""

        def __init__(self, path: str, query: dict[str, str]) -> None:
            super().__init__(query)
            self.names = read[documented(path)]

        def get(self, name: str, default: Any = None) -> Any:
            self.names.add(name)
            return super().get(name, default)

        def __contains__(self, name: object) -> bool:
            self.names.add(str(name))
            return super().__contains__(name)

    @web.middleware
    async def noting(request: web.Request, handler: Any) -> Any:
        request._cache["query"] = Noted(request.path, dict(request.query))
        return await handler(request)

    async def ask(site: Site, path: str) -> None:
        application = site.application()
        application.middlewares.append(noting)
        async with TestClient(TestServer(application)) as client:
            url = URL(f"{client.make_url('/')}".rstrip("/") + path, encoded=True)
            async with client.session.get(url, allow_redirects=False):
                pass

    async def ask_all() -> None:
        for state, path, *_ in ASKED:
            site = Site()
            state(site)
            await ask(site, path)

    asyncio.run(ask_all())
    assert read == {
        path: {
            parameter["$ref"].rpartition("/")[2]
            for parameter in operation.get("parameters", [])
            if "$ref" in parameter
        }
        for path, operation in PATHS.items()
    }


def test_refusals_are_as_documented() -> None:
    refused = DOCUMENT["components"]["responses"]["Refused"]["content"]["application/json"]

    async def ask(client: TestClient[Any, Any], _: TestServer) -> None:
        for method, status, arguments in (
            ("POST", 405, {}),
            ("GET", 413, {"data": "x"}),
            ("GET", 421, {"headers": {"Host": "example.com"}}),
            ("GET", 400, {"params": "%ff"}),
        ):
            url = client.make_url("/status")
            if arguments.get("params"):
                url, arguments = URL(f"{url}?%ff", encoded=True), {}
            async with client.session.request(method, url, **arguments) as answer:
                assert answer.status == status
                assert errors(refused["schema"], await answer.json()) == []

    served(ask, Site())


def events(frames: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event."""
    found = []
    for frame in frames.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_streams_are_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event of each, with its data."""
    monkeypatch.setattr(watchers, "BEAT_SECONDS", 0.02)
    facets = json.loads((ROOT / "schemas" / "facets.changed.schema.json").read_text("utf-8"))
    body = json.dumps(facets["examples"][0]).encode()
    deleted = change("x")._replace(value=None)
    messages = [change("x"), deleted, change("x", body)._replace(topic="facets")]

    async def ask(client: TestClient[Any, Any], _: TestServer) -> None:
        for path in ("/page/changes", "/page/entities/x/changes"):
            answered = PATHS[documented(path)]["responses"]["200"]["content"]["text/event-stream"]
            kinds, heard, seen = answered["x-events"], b"", set()
            async with client.get(path) as answer:
                assert answer.content_type == "text/event-stream"
                # a browser that reads slowly misses some; this one does not
                while seen < kinds.keys() - ({"skipped"} if path == "/page/changes" else set()):
                    for message in messages:  # more changes than an update has, so some are skipped
                        site.feed.committed([message] * 5)
                    heard += await answer.content.readany()
                    whole, _, heard = heard.rpartition(b"\n\n")
                    for name, data in events(whole):
                        assert errors(kinds[name], data) == [], (name, data)
                        seen.add(name)
                    await asyncio.sleep(0.03)

    site = Site()
    served(ask, site)
