"""The page in one file: with everything in it, and hostile texts are data."""

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.harness.browser import Browser
from tests.page.steps import steps_of
from worker.page.saved import saved_page

HOSTILE = (
    "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"' "
    'onmouseover="alert(1)" &lt; <!-- ]]> {{x}} javascript:alert(1) \u202eevil\x1b[2J'
)
NEWEST_FIRST = ["2026-11-09T00:00:00Z", "2026-11-01T00:00:00Z"]
DAYS = ["2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", None, "2026-11-09T00:00:00Z"]


def hostile_page():
    texts = {"a#0": HOSTILE, "b#0": "Near."}, {"b#0": "Near.", "c#0": "Quiet."}, None
    steps = steps_of(*texts, {"c#0": "Again."}, entity=HOSTILE, occurred_at=DAYS)
    return saved_page(HOSTILE, HOSTILE, steps)


def data_of(html):
    (found,) = re.findall(r'<script type="application/json" id="saved">(.*?)</script>', html)
    assert found.isascii()
    assert "<" not in found
    return json.loads(found)


def test_it_needs_nothing_else_and_no_other_script_can_run():
    html = hostile_page()
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|innerHTML|eval\(|\bimport |<link", html)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.S)
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy


@given(st.text())
def test_texts_are_data(text):
    html = saved_page(text, text, steps_of({"a#0": text}))
    data = data_of(html)
    assert data["entity_id"] == data["source"] == data["summary"]["sentences"][0]["text"] == text


@pytest.mark.chromium
def test_it_is_drawn_from_its_data_alone(tmp_path):
    """On a desktop and a phone, of a summary that was deleted and came again; a missing change."""
    first, second = steps_of({"a#0": "A.", "b#0": "B."}, {"c#0": "C."}, occurred_at=DAYS[:2])
    body = structs.replace(second.publication.body, removed=[])
    gap = second._replace(publication=second.publication._replace(body=body), incomplete=True)
    pages = {"deleted": hostile_page(), "gap": saved_page("e", "t", [first, gap])}
    newest_first = steps_of({"a#0": "A."}, {"b#0": "B."}, occurred_at=NEWEST_FIRST)
    pages["newest first"] = saved_page("e", "t", newest_first)
    count = "document.querySelectorAll('.chart .{}').length"
    texts = "[...document.querySelectorAll('.row q')].map((q) => q.innerText)"
    with Browser(tmp_path) as browser:
        for name, html in pages.items():
            path = tmp_path / f"{name}.html"
            path.write_text(html, encoding="utf-8")
            for width in (1280, 390):
                tab = browser.open(path.as_uri(), width)
                tab.wait("document.querySelector('.changes li') !== null")
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                if name == "deleted":
                    found = [tab.evaluate(count.format(one)) for one in ("step", "bar", "still")]
                    assert found == [4, 4, 1]
                    assert tab.evaluate(texts)[:2] == ["Again.", "Near."]
                    assert "alert(1)" in tab.evaluate(texts)[2]
                    assert tab.text("h1").startswith("</style></script><script>")
                    assert "Some changes are missing" not in tab.evaluate("document.body.innerText")
                elif name == "newest first":  # no axis of time
                    found = [tab.evaluate(count.format(one)) for one in ("step", "bar", "tick")]
                    assert found == [2, 2, 2]
                    ticks = "[...document.querySelectorAll('.tick')].map((one) => one.innerText)"
                    assert tab.evaluate(ticks) == ["change 1", "change 2"]
                else:
                    assert tab.evaluate(count.format("gone-unseen")) == 2
                    assert "Some changes are missing" in tab.evaluate("document.body.innerText")
                assert (tab.complaints, tab.requested) == ([], [path.as_uri()])
                tab.close()
