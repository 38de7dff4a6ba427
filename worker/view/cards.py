"""States of entities as cards for people, and the table of an overview: for each subject its
counts, its sentences with the ids of their reviews, and its pros and cons.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.errors import many
from worker.events.outputs import SIDES, facet_label
from worker.view import output
from worker.view.texts import one_line

QUOTES: Final = 2  # pros, and cons, of a subject; `--view facets` shows all
MARKS: Final = dict(zip(SIDES, (("+ ", "bold green"), ("- ", "bold red")), strict=True))


def cards(bodies: Iterable[bytes], *, styled: bool) -> Iterator[bytes]:
    """States of entities as cards for people; `styled`: with bold text and colours."""
    for body in bodies:
        text = io.StringIO()
        console = Console(
            file=text,
            width=output.console().width,
            force_terminal=styled,
            highlight=False,
            emoji=False,
            markup=False,
        )
        _print_card(console, json.loads(body))
        yield re.sub(" +$", "", text.getvalue(), flags=re.MULTILINE).encode()


def _print_card(console: Console, body: dict[str, Any]) -> None:
    console.print(
        Text(output.printable(body["entity_id"]), style="bold", overflow="fold"),
        Text(entity_counts(body), style="dim"),
    )
    if "facets" in body and "sentences" in body:
        console.print(overview_table(body))
    else:
        for facet in body.get("facets", ()):
            _print_facet(console, facet)
        _print_sentences(console, body.get("sentences", ()))
    console.print()


def _print_facet(console: Console, facet: dict[str, Any]) -> None:
    if not facet["sentences"]:
        return
    mean = facet["ratings"]["mean"]
    facts = many(facet["sentence_count"], "sentences")
    facts += "" if mean is None else f", rated {mean:.1f}"
    if "mentions" in facet:
        facts += f", {many(facet['mentions']['review_count'], 'mentions')}"
    label = output.printable(output.facet_label(facet))
    console.print(Text(f"{label},"), Text(facts, style="dim"))
    _print_sentences(console, facet["sentences"])
    for side in SIDES:
        if facet.get(side):
            console.print(Text(f"{label}, {side}:"))
            _print_sentences(console, facet[side])


def _print_sentences(console: Console, sentences: Iterable[dict[str, Any]]) -> None:
    """Each text once, by its nearest sentence: a card is read, not counted."""
    nearest: dict[str, dict[str, Any]] = {}
    for sentence in sentences:
        nearest.setdefault(sentence["text"], sentence)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, overflow="fold")
    for sentence in nearest.values():
        support = sentence.get("support", 1)
        alike = f"{support:,} alike" if support > 1 else ""
        if "stands_for" in sentence:
            alike = f"for {sentence['stands_for']:,}"
        table.add_row(
            Text(f"{sentence['rank'] + 1}", style="dim"),
            Text(output.printable(sentence["text"])),
            Text(alike, style="dim"),
        )
    if table.rows:
        console.print(table)


def overview_table(overview: Mapping[str, Any]) -> Table:
    """A row for each sentence of the JSON of an overview, by subject, the largest subjects first.

    A subject of which the overview says nothing, and that has neither sides nor mentions, is left
    out.
    """
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", max_width=20, overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for facet in overview["facets"]:
        label, quotes = one_line(_label(overview, facet)), list(_quotes(overview, facet))
        counted = _counts(facet) if quotes or "mentions" in facet else ()
        for counts, quote in zip_longest(counted, quotes, fillvalue=""):
            table.add_row(label, counts, quote)
            label = ""
    return table


def entity_counts(view: Mapping[str, Any]) -> str:
    """The counts of an entity, of the JSON of any view, with its mean rating if that is known."""
    reviews, sentences = (
        many(view[f"{noun}_count"], f"{noun}s") for noun in ("review", "sentence")
    )
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
        side: {quote["text"]: quote for quote in reversed(facet.get(side, ()))}  # nearest of a text
        for side in MARKS
    }
    own = {quote["text"]: quote for quote in overview["sentences"] if quote["facet"] == label}
    for text, quote in own.items():
        marks = [mark for side, mark in MARKS.items() if text in sides[side]]
        yield Text.assemble(*marks, _quote(quote))
    for side, mark in MARKS.items():
        others = [quote for quote in reversed(sides[side].values()) if quote["text"] not in own]
        yield from (Text.assemble(mark, _quote(quote)) for quote in others[:QUOTES])


def _quote(sentence: Mapping[str, Any]) -> Text:
    review = one_line(sentence["review_id"])
    return Text.assemble(one_line(sentence["text"]), (f" [{review}]", "dim"))
