"""What `summarize` writes: every change, the last one of each entity, or each entity's state."""

import io
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from worker.cli import output

if TYPE_CHECKING:
    from worker.processing.entity_view import Extent, View
    from worker.tools.summarize import FileSummarizer, Outcome

Lines = Callable[[Iterable[bytes]], Iterable[bytes]]
"""Formats bodies and states for output."""
ReadState = Callable[["FileSummarizer", str], "View | None"]
"""Reads an entity's state by its id; None for an unknown entity."""


def body_lines(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Bodies as lines."""
    return (body + b"\n" for body in bodies)


def cards(bodies: Iterable[bytes], *, styled: bool) -> Iterator[bytes]:
    """States of entities as cards for people, as wide as the terminal.

    `styled`: with bold text and colours.
    """
    from rich.console import Console

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


def _print_card(console: Any, body: dict[str, Any]) -> None:
    from rich.text import Text

    counts = ", ".join(
        output.many(body[f"{one}_count"], f"{one}s") for one in ("review", "sentence")
    )
    console.print(
        Text(output.printable(body["entity_id"]), style="bold", overflow="fold"),
        Text(counts, style="dim"),
    )
    for facet in body.get("facets", ()):
        if facet["sentences"]:
            mean = facet["ratings"]["mean"]
            facts = output.many(facet["sentence_count"], "sentences")
            facts += "" if mean is None else f", rated {mean:.1f}"
            console.print(Text(f"{output.printable(facet['name'])},"), Text(facts, style="dim"))
            _print_sentences(console, _each_text_once(facet["sentences"]))
    _print_sentences(console, body.get("sentences", ()))
    console.print()


def _each_text_once(sentences: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The nearest of each text: a facet is three sentences, and its card is read, not counted."""
    nearest: dict[str, dict[str, Any]] = {}
    for one in sentences:
        nearest.setdefault(one["text"], one)
    return nearest.values()


def _print_sentences(console: Any, sentences: Iterable[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("right", "left", "right"):
        table.add_column(justify=justify, overflow="fold")
    for sentence in sentences:
        support = sentence.get("support", 1)
        alike = f"{support:,} alike" if support > 1 else ""
        if "stands_for" in sentence:
            alike = f"for {sentence['stands_for']:,}"
        if "facet" in sentence:
            count = output.many(sentence["facet_sentence_count"], "sentences")
            alike = f"{output.printable(sentence['facet'])}, {count}"
        table.add_row(
            Text(f"{sentence['rank'] + 1}", style="dim"),
            Text(output.printable(sentence["text"])),
            Text(alike, style="dim"),
        )
    if table.rows:
        console.print(table)


class AllChanges:
    """Writes each change at once, as a line."""

    def at_once(self, outcome: "Outcome") -> bytes:
        """What is written after some records."""
        bodies = (change.value for change in outcome.changes if change.value is not None)
        return b"".join(body_lines(bodies))

    def at_end(self, _summarizer: "FileSummarizer") -> Iterable[bytes]:
        """What is written after all records."""
        return ()


class FinalChanges(AllChanges):
    """Writes the last change of each entity at the end."""

    def __init__(self) -> None:
        from worker.tools.summarize import LastChanges

        self._last = LastChanges()

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `AllChanges`."""
        self._last.update(outcome.changes)
        return b""

    def at_end(self, _summarizer: "FileSummarizer") -> Iterable[bytes]:
        """See `AllChanges`."""
        return body_lines(self._last.bodies())


class FinalStates(AllChanges):
    """Writes the state of each entity with sentences at the end, by entity id.

    It has the counts and ranks after the last event, which a published change need not have.
    """

    def __init__(self, lines: Lines, *reads: ReadState) -> None:
        self._lines = lines
        self._reads = reads
        self._entities: set[str] = set()

    def at_once(self, outcome: "Outcome") -> bytes:
        """See `AllChanges`."""
        self._entities |= outcome.entities
        return b""

    def at_end(self, summarizer: "FileSummarizer") -> Iterable[bytes]:
        """See `AllChanges`."""
        import msgspec

        states = (read(summarizer, one) for one in sorted(self._entities) for read in self._reads)
        return self._lines(msgspec.json.encode(one) for one in states if one and _is_shown(one))


def state_readers(view: str, extent: "Extent | None", has_facets: bool) -> list[ReadState]:
    """What is read of each entity for `--view`; `extent` of the short view and the overview."""
    from worker.processing.entity_view import KINDS

    kinds = [view, "facets"] if view == "set" and has_facets else [view]
    return [partial(_read, kind=KINDS[one], extent=extent) for one in kinds]


def _read(
    summarizer: "FileSummarizer", entity_id: str, kind: "type[View]", extent: "Extent | None"
) -> "View | None":
    return summarizer.view(entity_id, kind, extent)


def _is_shown(state: "View") -> bool:
    from worker.processing.entity_view import FacetsView

    if isinstance(state, FacetsView):
        return any(one.sentences for one in state.facets)
    return bool(state.sentences)
