"""The page: facts of the entity, the chart, and each change in words."""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain

from worker.published.history import HistoryStep
from worker.view.timeline.axis import step_axis, time_axis, times
from worker.view.timeline.chart import chart, sentences_of
from worker.view.timeline.details import details
from worker.view.timeline.markup import Html, data, element, foreign, text

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
            "section", element("h2", text("All changes")), details(steps), class_="all", id_="all"
        ),
    )
    title = f"{entity_id}: history of its {_what(steps)}"
    return f"<!doctype html>\n{_document(title, content)}\n"


def _document(title: str, content: Html) -> Html:
    page, shared = files(__package__), files("worker.page").joinpath("static")
    style = Html("".join(_read(one) for one in (shared / "timeline.css", page / "page.css")))
    modules = "".join(_read(shared / name) for name in ("dom.js", "timeline.js"))
    script = Html(f'"use strict";\n{_MODULE.sub("", modules)}{_read(page / "page.js")}')
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
