"""Summaries for people: a card for each entity, each sentence in full."""

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from worker.cli import output


def cards(bodies: Iterable[bytes], *, styled: bool) -> Iterator[bytes]:
    """A card for each body of a `summary.changed`, or a short view, as wide as the terminal; `styled`: with bold and colours."""
    from rich.console import Console

    for body in bodies:
        console = Console(
            file=io.StringIO(),
            width=output.console().width,
            force_terminal=styled,
            highlight=False,
            emoji=False,
            markup=False,
        )
        _print(console, json.loads(body))
        yield console.file.getvalue().encode()  # type: ignore[attr-defined]


def _print(console: Any, body: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    counts = ", ".join(output.many(body[f"{one}_count"], f"{one}s") for one in ("review", "sentence"))
    console.print(
        Text(output.printable(body["entity_id"]), style="bold", overflow="fold"), Text(counts, style="dim")
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, overflow="fold")
    for sentence in body["sentences"]:
        support = sentence.get("support", 1)
        alike = f"{support:,} alike" if support > 1 else ""
        if "stands_for" in sentence:
            alike = f"for {sentence['stands_for']:,}"
        table.add_row(
            Text(f"{sentence['rank'] + 1}", style="dim"),
            Text(output.printable(sentence["text"])),
            Text(alike, style="dim"),
        )
    console.print(table)
    console.print()
