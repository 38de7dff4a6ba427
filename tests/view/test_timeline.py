"""The page: one file, well formed, with everything in it; and hostile texts are texts."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.browser import Browser
from tests.view.steps import steps_of
from worker.view.timeline import VOID, data, element, page, text

HOSTILE = (
    "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"' "
    'onmouseover="alert(1)" &lt; &amp;lt; '
    "<!-- ]]> {{x}} javascript:alert(1)"
)


class Read(HTMLParser):
    """Elements, attributes and text of a page; fails where an element is not closed in
    its place.
    """

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag, kind=None):
        return [
            a
            for name, a in self.elements
            if name == tag and (kind is None or kind in (a.get("class") or "").split())
        ]


def charted(html):
    """The chart's data in a page."""
    (found,) = re.findall(r'<script type="application/json" id="history">(.*?)</script>', html)
    return json.loads(found)


STEPS = steps_of(
    {"a#0": "It was lovely.", "b#0": "Near the park."},
    {"b#0": "Near the park.", "c#0": "Quiet."},
    None,
    {"c#0": "Again."},
    occurred_at=["2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", None, "2026-11-09T00:00:00Z"],
    ratings={"a#0": 4.0, "b#0": 2.5},
)


def test_everything_is_in_it():
    html = page("stay", "summaries", STEPS)
    read, chart = Read(html), charted(html)
    words = " ".join(read.words)
    for wanted in (
        "stay",
        "summaries",
        "It was lovely.",
        "Near the park.",
        "Again.",
        "The entity is forgotten",
    ):
        assert wanted in words
    assert len(chart["steps"]) == 4
    assert len(chart["sentences"]) == 4
    spans = [span for one in chart["sentences"] for span in one["spans"]]
    assert [last for _, last, *_ in spans] == [None, 2, 2, 1]
    assert all(start and end for _, _, start, end in spans)
    assert [a["id"] for a in read.all("li") if "id" in a] == [f"change-{i}" for i in range(1, 5)]
    assert {one["shade"] for one in chart["sentences"]} == {"r3", "r2", "r-none"}
    assert "Some changes are missing" not in words


def test_it_needs_nothing_else():
    html = page("stay", "summaries", STEPS)
    read = Read(html)
    assert not {tag for tag, _ in read.elements} & {
        "link",
        "img",
        "iframe",
        "object",
        "base",
        "a",
        "form",
    }
    assert not [
        a
        for _, a in read.elements
        if {"src", "href"} & a.keys() or any(name.startswith("on") for name in a)
    ]
    assert not re.search(r"https?:|url\(|@import|\bfetch\b|innerHTML|eval\(", html)


def test_no_other_script_can_run():
    html = page("stay", "summaries", STEPS)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.S)
    (policy,) = (
        a["content"]
        for a in Read(html).all("meta")
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")


def test_hostile_texts_are_texts():
    quiet = Read(page("e", "t", steps_of({"a#0": "A."}, {"b#0": "B."}, ratings={"a#0": 1.0})))
    hostile = Read(
        page(
            HOSTILE,
            HOSTILE,
            steps_of(
                {f"{HOSTILE}#0": HOSTILE},
                {f"{HOSTILE}#1": HOSTILE},
                entity=HOSTILE,
                review=HOSTILE,
                ratings={f"{HOSTILE}#0": 1.0},
            ),
        )
    )  # fmt: skip
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in quiet.elements]
    assert [a.keys() for _, a in hostile.elements] == [a.keys() for _, a in quiet.elements]
    assert hostile.words.count(HOSTILE) >= 4


def test_texts_cannot_turn_what_is_around_them():
    """Every foreign text has its own direction, and no character that controls one gets through."""
    html = page("e", "t", steps_of({"a#0": "\u202eevil\u2066\x1b[2J\x00 fine\n👨\u200d👩\u200d👧"}))
    assert not set(html) & set("\u202e\u2066\x1b\x00")
    assert "<bdi>\ufffdevil\ufffd\ufffd[2J\ufffd fine\n👨\u200d👩\u200d👧</bdi>" in html


@given(st.text())
def test_text_is_only_text(value):
    shown = text(value)
    assert not set(shown) & set("<>\"'")
    printable = "".join(one for one in value if one.isprintable())
    assert (
        "".join(one for one in unescape(shown) if one in printable) == printable
        or "\ufffd" in shown
    )
    Read(element("p", shown, title=value))


@given(st.text())
def test_data_stays_in_its_element(value):
    (inside,) = re.findall(r"<script[^>]*>(.*)</script>", data([value]), re.DOTALL)
    assert "<" not in inside
    assert json.loads(inside) == [value]


def test_changes_that_are_missing_are_told():
    _, second = steps_of({"a#0": "A.", "b#0": "B."}, {"b#0": "B."})
    html = page("e", "t", [second._replace(before=None, incomplete=True)])
    assert "Some changes are missing" in html
    read = Read(html)
    assert charted(html)["sentences"][0]["spans"] == [[0, None, False, True]]
    assert "its text is not known here" in " ".join(read.words)


@pytest.mark.parametrize("summaries", [[{"a#0": "A."}], [None], [{}], [{"a#0": "A."}, {}, None]])
def test_however_little_there_is(summaries):
    html = page("e", "t", steps_of(*summaries))
    read, chart = Read(html), charted(html)
    assert len(chart["steps"]) == len(summaries)
    assert chart["axes"]["time"] is None
    assert not read.all("input", None)[0].get("name"), "no axis to choose"


@pytest.mark.parametrize(
    ("ratings", "shades"),
    [((1, 3, 5), ("r0", "r2", "r4")), ((0, 5, 10), ("r0", "r2", "r4")), ((4, 4, 4), ("r3",) * 3),
     ((7, 7, 7), ("r4",) * 3)],
)  # fmt: skip
def test_shades_of_ratings(ratings, shades):
    """Of five stars, or of whatever scale there is."""
    ids = ("a#0", "b#0", "c#0")
    steps = steps_of(
        dict.fromkeys(ids, "A."),
        ratings={one: float(rating) for one, rating in zip(ids, ratings, strict=True)},
    )
    chart = charted(page("e", "t", steps))
    assert [one["shade"] for one in chart["sentences"]] == list(shades)


@pytest.mark.chromium
def test_the_chart_in_a_browser(tmp_path):
    """Drawn from the data alone, on a desktop and a phone; stepped through by keys; hostile texts
    run nothing.
    """
    hostile = steps_of(
        {"a#0": HOSTILE, "b#0": "Near."},
        {"b#0": "Near.", "c#0": "Quiet."},
        None,
        {"c#0": "Again."},
        entity=HOSTILE,
        occurred_at=["2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", None, "2026-11-09T00:00:00Z"],
        ratings={"a#0": 4.0},
    )
    path = tmp_path / "history.html"
    path.write_text(page(HOSTILE, "summaries", hostile), encoding="utf-8")
    with Browser(tmp_path) as browser:
        for width in (1280, 390):
            tab = browser.open(path.as_uri(), width)
            count = "document.querySelectorAll('.chart .{}').length"
            found = [tab.evaluate(count.format(one)) for one in ("step", "row", "bar", "still")]
            assert found == [4, 4, 4, 1]
            assert tab.text("#which") == "change 4 of 4"
            tab.click("#back")
            tab.evaluate(
                "document.querySelector('.plot').dispatchEvent("
                "new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}))"
            )
            assert tab.text("#which") == "change 2 of 4"
            assert tab.evaluate(count.format("row.came")) == 1
            assert tab.evaluate(count.format("row.left")) == 1
            texts = tab.evaluate("[...document.querySelectorAll('.row q')].map((q) => q.innerText)")
            assert texts == ["Again.", "Quiet.", "Near.", HOSTILE]
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert (tab.complaints, tab.requested) == ([], [path.as_uri()])
            tab.close()
