"""A worker's web pages for commands that ask one."""

import json

import msgspec
import pytest

from tests.harness import web_state
from tests.harness.http_server import Handler, HttpServer

VIEW = {
    "entity_id": "a/b é",
    "review_count": 2,
    "sentence_count": 3,
    "sequence": None,
    "sentences": [
        {
            "rank": 0,
            "sentence_id": "r#0",
            "review_id": "r",
            "text": "[bold]Good\x1b[2J",
            "rating": None,
            "distance": 0.1,
            "support": 2,
        }
    ],
}
SHORT = {
    **VIEW,
    "threshold": 0.8,
    "sentences": [{**VIEW["sentences"][0], "stands_for": 12345, "stands_for_reviews": 7}],
}
LISTED = {
    "entities": [
        {
            "entity_id": "misplaced",
            "sentences": 3,
            "reviews": 2,
            "sequence": None,
            "partition": 4,
        }
    ],
    "after": None,
    "searched": 1,
    "partitions": [4],
    "others": {},
}
FACETS = {**VIEW, "ratings": {"count": 0, "mean": None}, "facets": []}
OVERVIEW = {**VIEW, "threshold": 0.8, "language": "fr", "sentences": [], "facets": []}
ANSWER = json.loads(msgspec.json.encode(web_state.ANSWER))
TREND = json.loads(msgspec.json.encode(web_state.TREND))
NONE = {"recent": 0, "before": 0, "rose": None, "may_have_risen": None}
RISEN = {**TREND, "facets": [{**TREND["facets"][0], "complaints": NONE}, *TREND["facets"]]}
ANSWERS = {
    "/entities/x/ask?q=Is+it+quiet%3F&rating_max=3": (200, ANSWER, {}),
    "/entities/x/ask?q=casino": (200, {**ANSWER, "answered": False, "sentences": []}, {}),
    "/entities/x/ask?q=any": (200, {**ANSWER, "answered": None, "mentions": None}, {}),
    "/entities/x/ask?q=quiet&since=x": (400, {"error": "since is a date"}, {}),
    "/entities/x/trend?by=quarter": (200, RISEN, {}),
    "/entities/misplaced/trend?by=month": (200, RISEN, {}),
    "/entities?limit=500": (200, LISTED, {}),
    "/entities/x/facets?language=fr": (200, FACETS, {}),
    "/entities/x/summary?language=fr&view=overview&threshold=0.800000000": (200, OVERVIEW, {}),
    "/entities/x/facets?language=nl": (400, {"error": "the facets are in fr, en"}, {}),
    "/status": (200, {"group": "coversumm-worker"}, {}),
    "/entities/a%2Fb%20%C3%A9/summary": (200, VIEW, {}),
    "/entities/x/summary?view=short&words=9&threshold=0.800000000": (200, SHORT, {}),
    "/entities?prefix=misplaced&limit=1": (200, LISTED, {}),
    "/entities/later/summary": (503, {"error": "rebalancing"}, {}),
    "/entities/soon/summary": (
        503,
        {"error": "not yet: 4,000 records behind"},
        {"Retry-After": "1"},
    ),
    "/entities/odd/summary": (500, "oh", {}),
}


class WebWorker(Handler):
    def do_GET(self):
        code, body, headers = ANSWERS.get(
            self.path, (404, {"error": "there is no such entity"}, {})
        )
        data = json.dumps(body).encode()
        if self.path.endswith("/facets"):  # a version without this page
            code, data = 404, b'{"error": "nothing is at this path"}'
        self.reply(code, data, headers)


@pytest.fixture
def port(monkeypatch):
    with HttpServer(WebWorker) as server:
        yield server.port
