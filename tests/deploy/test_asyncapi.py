"""The AsyncAPI document by its own parser, and the page that shows it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs.build.asyncapi import asyncapi_yaml, document
from docs.build.asyncapi_page import page
from tests.deploy.tools import ASYNCAPI
from tests.harness.browser import Browser
from tests.harness.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.asyncapi

PARSE = """
const { Parser } = require("@asyncapi/parser");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
Promise.all(texts.map((text) => new Parser().parse(text))).then((parsed) =>
  console.log(JSON.stringify(parsed.map(({ diagnostics }) =>
    diagnostics.map(({ severity, code, path }) => ({ severity, code, path })))))
);
"""
ERROR, WARNING = 0, 1


def diagnostics(*texts: str) -> list[list[dict[str, Any]]]:
    """What the parser says about each document, up to warnings."""
    done = subprocess.run(
        ["node", "-e", PARSE],
        input=json.dumps(texts),
        cwd=ASYNCAPI,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    found = json.loads(done.stdout)
    return [[problem for problem in each if problem["severity"] <= WARNING] for each in found]


def test_the_parser_finds_only_what_is_wrong() -> None:
    wrong = document()
    wrong["channels"]["input"]["bindings"]["kafka"]["topics"] = "a"
    right, found = diagnostics(asyncapi_yaml(), json.dumps(wrong))
    assert right == []
    path = ["channels", "input", "bindings", "kafka", "topics"]
    assert path in [problem["path"] for problem in found if problem["severity"] == ERROR]


@pytest.mark.chromium
def test_the_page_shows_every_message_without_a_network(tmp_path: Path) -> None:
    file = tmp_path / "asyncapi.html"
    file.write_text(page(document()))
    with Browser(tmp_path) as browser:
        tab = browser.open(file.as_uri())
        tab.wait("document.body.innerText.includes('sentences.deleted')")
        text = tab.evaluate("document.body.innerText")
        for name in ("facets.changed", "dead letter", "marketplace.reviews.v1.dlq"):
            assert name in text
        assert tab.requested == [file.as_uri()]
