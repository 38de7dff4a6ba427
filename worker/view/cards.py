"""States of entities as cards for people."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.events.outputs import SIDES
from worker.view import output
from worker.view.overview import entity_counts, overview_table


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
        yield text.getvalue().encode()


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
    facts = output.many(facet["sentence_count"], "sentences")
    facts += "" if mean is None else f", rated {mean:.1f}"
    if "mentions" in facet:
        facts += f", {output.many(facet['mentions']['review_count'], 'mentions')}"
    label = output.printable(output.facet_label(facet))
    console.print(Text(f"{label},"), Text(facts, style="dim"))
    _print_sentences(console, _each_text_once(facet["sentences"]))
    for side in SIDES:
        if facet.get(side):
            console.print(Text(f"{label}, {side}:"))
            _print_sentences(console, _each_text_once(facet[side]))


def _each_text_once(sentences: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The nearest of each text: a facet is three sentences, and its card is read, not counted."""
    nearest: dict[str, dict[str, Any]] = {}
    for one in sentences:
        nearest.setdefault(one["text"], one)
    return nearest.values()


def _print_sentences(console: Console, sentences: Iterable[dict[str, Any]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, overflow="fold")
    for sentence in sentences:
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
