"""An entity's overview on a terminal: for each subject its counts, its sentences with the ids of
their reviews, and its pros and cons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from worker.errors import many
from worker.events.outputs import SIDES, facet_label
from worker.view.texts import one_line

QUOTES: Final = 2  # pros, and cons, of a subject; `--view facets` shows all
MARKS: Final = dict(zip(SIDES, (("+ ", "bold green"), ("- ", "bold red")), strict=True))


def overview_table(overview: Mapping[str, Any], subjects: int | None = None) -> Table:
    """A row for each sentence of the JSON of an overview, by subject, the largest subjects first.

    A subject of which the overview says nothing, and that has no sides, is left out; with
    `subjects` all but the first ones are.
    """
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", max_width=20, overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    shown = ((facet, list(_quotes(overview, facet))) for facet in overview["facets"])
    for facet, quotes in [one for one in shown if one[1]][:subjects]:
        label = one_line(_label(overview, facet))
        for counts, quote in zip_longest(_counts(facet), quotes, fillvalue=""):
            table.add_row(label, counts, quote)
            label = ""
    return table


def entity_counts(view: Mapping[str, Any]) -> str:
    """The counts of an entity, of the JSON of any view, with its mean rating if that is known."""
    reviews, sentences = (many(view[f"{one}_count"], f"{one}s") for one in ("review", "sentence"))
    return ", ".join([reviews, *_rated(view), sentences])


def _rated(counts: Mapping[str, Any]) -> list[str]:
    mean = counts.get("ratings", {}).get("mean")
    return [] if mean is None else [f"rated {mean:.1f}"]


def _label(overview: Mapping[str, Any], facet: Mapping[str, Any]) -> str:
    """The facet's label in an overview: the name alone if all facets have one language."""
    name: str = facet["name"]
    return name if "language" in overview else facet_label(name, facet.get("language"))


def _counts(facet: Mapping[str, Any]) -> list[str]:
    """Its mentions, or its reviews if it has no words; and their mean rating if it is known."""
    of = facet.get("mentions", facet)
    count = many(of["review_count"], "mentions" if "mentions" in facet else "reviews")
    return [count, *_rated(of)]


def _quotes(overview: Mapping[str, Any], facet: Mapping[str, Any]) -> Iterator[Text]:
    """The overview's sentences of the facet, then the first pros and cons with other texts."""
    label = _label(overview, facet)
    sides = {
        side: {one["text"]: one for one in reversed(facet.get(side, ()))}  # the nearest of a text
        for side in MARKS
    }
    own = {one["text"]: one for one in overview["sentences"] if one["facet"] == label}
    for text, one in own.items():
        marks = [mark for side, mark in MARKS.items() if text in sides[side]]
        yield Text.assemble(*marks, _quote(one))
    for side, mark in MARKS.items():
        others = [one for one in reversed(sides[side].values()) if one["text"] not in own]
        yield from (Text.assemble(mark, _quote(one)) for one in others[:QUOTES])


def _quote(sentence: Mapping[str, Any]) -> Text:
    review = one_line(sentence["review_id"])
    return Text.assemble(one_line(sentence["text"]), (f" [{review}]", "dim"))
