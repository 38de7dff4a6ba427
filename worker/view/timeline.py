"""The history of one entity's summary, or of its facets, as one self-contained HTML file.

Without JavaScript the page shows all changes in words, but no chart. Texts of reviews are text,
never markup.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain
from typing import NewType

import msgspec

from worker.events import SummarySentence
from worker.published.history import HistoryStep, PublishedChange
from worker.view.board import EntityNames, ShownChange
from worker.view.chart import chart, sentences_of, step_axis, time_axis, times
from worker.view.reasons import headline, why_come, why_gone
from worker.view.texts import printable

_MODULE = re.compile("^import .*\n|^export ", re.MULTILINE)
"""What makes modules of the scripts: one script needs neither."""
_NO_SCRIPT = "The chart needs JavaScript; the changes below do not."
_CLOCKS = {"occurred": "by the time of the events", "published": "by the time of publication"}
_GAPS = (
    "Some changes are missing: only the last change of an entity is sure to survive compaction, "
    "and limits of number or time leave out more. A hatched end of a bar means that the change "
    "with which the sentence came or left is missing."
)


def page(entity_id: str, source: str, steps: Sequence[HistoryStep]) -> str:
    """The history of a summary, or of facets, as one HTML file.

    Args:
        source: the topic or file of the history.
        steps: at least one, the newest last.
    """
    clock = times(steps)
    by_time = None if clock is None else time_axis(clock[1])
    content = element(
        "main",
        _header(entity_id, source, steps),
        _notes(steps),
        _controls(len(steps), None if clock is None else _CLOCKS[clock[0]], _what(steps)),
        element("div", element("noscript", text(_NO_SCRIPT)), id_="chart"),
        data(chart(steps, sentences_of(steps), by_time, step_axis(len(steps))), id_="history"),
        element("section", class_="card", id_="card", aria_live="polite", hidden=True),
        element(
            "section", element("h2", text("All changes")), _details(steps), class_="all", id_="all"
        ),
    )
    title = f"{entity_id}: history of its {_what(steps)}"
    return f"<!doctype html>\n{_document(title, content)}\n"


def _document(title: str, content: Html) -> Html:
    own, shared = files(__package__), files("worker.page").joinpath("static")
    style = Html(
        "".join(_read(one) for one in (shared / "timeline.css", own / "timeline_page.css"))
    )
    modules = "".join(_read(shared / name) for name in ("dom.js", "timeline.js"))
    script = Html(f'"use strict";\n{_MODULE.sub("", modules)}{_read(own / "timeline_page.js")}')
    digest = b64encode(sha256(script.encode()).digest()).decode()
    # Only this script runs, and nothing is loaded, whatever text might slip through as markup.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", text(title)),
        element("style", style),
    )
    return element("html", head, element("body", content, element("script", script)), lang="en")


def _read(file: Traversable) -> str:
    return file.read_text("utf-8")


def _header(entity_id: str, source: str, steps: Sequence[HistoryStep]) -> Html:
    return element(
        "header",
        element("p", text(f"History of {_what(steps)}"), class_="eyebrow"),
        element("h1", foreign(entity_id)),
        element("dl", *chain.from_iterable(_facts(source, steps))),
    )


def _facts(source: str, steps: Sequence[HistoryStep]) -> Iterator[tuple[Html, ...]]:
    latest = next(
        (step.publication.body for step in reversed(steps) if step.publication.body), None
    )
    is_deleted = steps[-1].publication.body is None
    what = _what(steps)
    facts = {"changes": f"{len(steps):,}", f"in the {what}": f"{_shown(steps):,}"}
    if is_deleted:
        facts["now"] = "deleted"
    elif latest is not None:
        if what == "summary":
            facts |= {
                "live sentences": f"{latest.sentence_count:,}",
                "reviews": f"{latest.review_count:,}",
                "k": f"{latest.k:,}",
            }
        facts["epoch"] = f"{latest.epoch:,}"
    for name, value in facts.items():
        yield (element("div", element("dt", text(name)), element("dd", text(value))),)
    yield (
        element("div", element("dt", text("from")), element("dd", foreign(source)), class_="wide"),
    )


def _what(steps: Sequence[HistoryStep]) -> str:
    return "summary" if all(one.publication.facet is None for one in steps) else "facets"


def _shown(steps: Sequence[HistoryStep]) -> int:
    """How many sentences the summary, or all facets together, have after the last step."""
    last: dict[str | None, int] = {}
    for step in steps:
        if step.publication.body is None:
            last.clear()
        last[step.publication.facet] = len(step.sentences)
    return sum(last.values())


def _notes(steps: Sequence[HistoryStep]) -> Html:
    are_missing = steps[0].before is not None or any(step.incomplete for step in steps)
    return element("p", text(_GAPS), class_="note") if are_missing else Html("")


def _controls(count: int, clock: str | None, what: str) -> Html:
    """The controls of the chart, hidden until JavaScript runs."""
    axes = element(
        "fieldset",
        element("legend", text("Axis"), class_="hidden"),
        *(
            element(
                "label",
                element("input", type_="radio", name="axis", value=value, checked=value == "time"),
                element("span", text(label)),
            )
            for value, label in (("time", clock or ""), ("steps", "change by change"))
        ),
        class_="switch",
    )
    mover = element(
        "div",
        element("button", text("‹"), type_="button", id_="back", aria_label="The change before"),
        element(
            "input",
            type_="range",
            id_="at",
            min_=1,
            max_=count,
            value=count,
            aria_label="Which change is looked at",
        ),
        element("button", text("›"), type_="button", id_="on", aria_label="The next change"),
        element("output", id_="which", for_="at"),
        class_="mover",
    )
    only = element(
        "label",
        element("input", type_="checkbox", id_="only"),
        element("span", text(f"only the {what} then")),
        class_="only",
    )
    return element(
        "div",
        mover,
        axes if clock else Html(""),
        only,
        class_="controls",
        hidden=True,
        id_="controls",
    )


# -- HTML from untrusted texts

Html = NewType("Html", str)
"""Markup in which every foreign text is escaped."""

VOID = frozenset({"input", "meta"})


def text(value: object) -> Html:
    """The value as text, escaped and `printable`."""
    return Html(escape(printable(str(value))))


def data(value: object, **attributes: object) -> Html:
    """A value as JSON in an element that no browser executes; without `<`, so that no text of it
    can end the element.
    """
    encoded = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return element("script", Html(encoded), type_="application/json", **attributes)


def element(name: str, /, *content: Html, **attributes: object) -> Html:
    """An element. In the names of attributes `_` stands for `-`, and at the end for nothing. True
    means an attribute without a value, None and False mean no attribute.
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    end = "" if name in VOID else f"</{name}>"
    return Html(f"<{name}{given}>{''.join(content)}{end}")


def foreign(value: object) -> Html:
    """A foreign text; its writing direction does not affect what is around it."""
    return element("bdi", text(value))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(value)}"'


# -- each change in words: when, why, and the sentences that came and left

_NAMES = EntityNames()
_UNKNOWN = "its text is not known here"


def _details(steps: Sequence[HistoryStep]) -> Html:
    """All steps as a list, the oldest first."""
    return element("ol", *(_item(number, step) for number, step in enumerate(steps, start=1)))


def _item(number: int, step: HistoryStep) -> Html:
    return element(
        "li",
        element("h3", element("span", text(f"{number:,}"), class_="number"), _headline(step)),
        element("p", *_about(step), class_="about"),
        element("ul", *_sentences(step)),
        id_=f"change-{number}",
    )


def _headline(step: HistoryStep) -> Html:
    change = _change(step)
    words = "The entity is forgotten: a tombstone" if change is None else headline(change, _NAMES)
    facet = step.publication.facet
    return foreign(words[:1].upper() + words[1:] if facet is None else f"{facet}: {words}")


def _change(step: HistoryStep) -> ShownChange | None:
    """None for a tombstone."""
    body, facet = step.publication.body, step.publication.facet
    return None if body is None else ShownChange.of(body, step.known_before, facet)


def _about(step: HistoryStep) -> Iterator[Html]:
    """Times, cause and place."""
    change = PublishedChange.of(step)
    for name, moment in (("happened", change.occurred_at), ("published", change.published_at)):
        if moment is not None:
            yield element("span", text(f"{name} "), element("time", text(moment), datetime=moment))
    if change.cause is not None:
        cause = change.cause
        yield element("span", text(cause["type"]))
        yield element(
            "span", foreign(f"{cause['topic']} [{cause['partition']}] {cause['offset']:,}")
        )
    if change.sequence is not None:
        yield element("span", text(f"sequence {change.sequence:,}"))
    if step.incomplete:
        yield element("span", text("changes before it are not here"), class_="gap")


def _sentences(step: HistoryStep) -> Iterator[Html]:
    change = _change(step)
    if change is None:
        for one in step.before.sentences if step.before is not None else ():
            yield _line("left", one, one.sentence_id, "forgotten")
        return
    for one in change.added:
        yield _line("came", one, one.sentence_id, why_come(change, one))
    known = {one.sentence_id: one for one in change.removed}
    for identifier in change.removed_ids:
        yield _line("left", known.get(identifier), identifier, why_gone(change, identifier))


def _line(kind: str, sentence: SummarySentence | None, identifier: str, why: str) -> Html:
    words = (
        element("em", text(_UNKNOWN)) if sentence is None else element("q", foreign(sentence.text))
    )
    rating = None if sentence is None or sentence.rating is None else f"{sentence.rating:g}"
    sign = "came: " if kind == "came" else "left: "
    return element(
        "li",
        element("span", text(sign), class_="hidden"),
        words,
        Html("") if rating is None else element("b", text(rating), class_="rating"),
        element("small", foreign(identifier)),
        element("small", text(why), class_="why"),
        class_=kind,
    )
