"""`compare`: two builds of the summaries by entity, or of their facets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from worker.cli.group import new_command
from worker.cli.options import Parsed, facets_option
from worker.errors import SetupError
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show_facts, show_table

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic
    from worker.published.comparison import Comparison, Example
    from worker.published.publication import Publication, SetName
    from worker.published.published import PublishedSource

EXAMPLES = 3
BAR_WIDTH = 40
STEP = 500  # publications between two updates of the progress bar


class Bound(NamedTuple):
    """Upper bound of the entities that differ: a number, or a percentage of all."""

    value: float
    is_percentage: bool

    def of(self, entities: int) -> float:
        """The bound as a number of entities."""
        return entities * self.value / 100 if self.is_percentage else self.value


def _parse_bound(text: str) -> Bound:
    number = text.removesuffix("%")
    is_percentage = number != text
    try:
        found = float(number) if is_percentage else int(number)
    except ValueError:
        found = -1
    if not 0 <= found <= (100 if is_percentage else float("inf")):
        raise ValueError(f"{text!r} is neither a number of entities like 12 nor a share like 5%.")
    return Bound(found, is_percentage)


BOUND = Parsed("N|N%", _parse_bound)


@new_command(
    "compare",
    ("compare summaries.v1 summaries.v2", "the topics of two epochs"),
    ("compare summaries.v1 ./epoch-2.jsonl.gz --examples 10", "a topic and a file"),
    (
        "compare old.jsonl new.jsonl --max-changed 5%",
        "exit code 1 if more than 5 % of all entities differ",
    ),
    ("compare facets.v1 facets.v2 --facets", "the topics of facets"),
)
@click.argument("a")
@click.argument("b")
@click.option(
    "--max-changed",
    "bound",
    type=BOUND,
    help="Exit code 1 if more entities (12), or a larger share (5%), are changed or missing.",
)
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=EXAMPLES,
    show_default=True,
    help="Number of the most changed entities to show side by side; reads A and B a second time.",
)
@facets_option("Compare the facets of all entities in place of their summaries.")
@output.json_option
def command(
    a: str, b: str, bound: Bound | None, examples: int, kind: OutputTopic, as_json: bool
) -> int:
    """Compare the summaries of A and B: entities that are equal, changed, or missing in A or B, and
    how many sentences differ.

    A and B are output topics, or files of bodies as `summarize` writes them (with a slash, or
    ending in .jsonl, also .gz). The last body of an entity counts. Summaries are compared as sets
    of sentence id and text; an entity without sentences has no summary. Summaries are identical if
    their bodies differ only in epoch, sequence, previous_sequence and cause.

    With --facets each facet of an entity is compared like an entity, and so are its pros and its
    cons, from the topics of facets or from files of `summarize --facets`.

    If k differs, an entity is contained if the larger set has all sentences that fit the smaller k:
    a change of k alone has this effect. Any other difference is a change.

    Memory grows with the number of entities, not with their texts: at k = 20 about half a GiB for a
    million.
    """
    from worker.events.publishing import FACETS
    from worker.published.comparison import compare
    from worker.published.published import published

    settings = Settings.from_environment()
    with published(a, settings, kind=kind) as of_a, published(b, settings, kind=kind) as of_b:
        for source in (of_a, of_b) if examples else ():
            if not source.is_lasting:
                raise SetupError(
                    f"{source.name} can be read only once: write it to a file, or set --examples 0"
                )
        found = compare(Shown(of_a), Shown(of_b), examples)
    allowed = None if bound is None else bound.of(found.entities)
    unit = "facets" if kind is FACETS else "entities"
    if as_json:
        output.print_json(_report(a, b, found, allowed))
    else:
        _show(a, b, found, unit)
    return _judge(a, b, found, bound, allowed, unit)


@dataclass(frozen=True, slots=True)
class Shown:
    """A topic or file that shows progress each time it is read."""

    source: PublishedSource

    def __iter__(self) -> Iterator[Publication]:
        source = self.source
        what = source.kind.name
        with output.file_progress(source.size, f"{what} of {source.name}") as progress:
            for count, published in enumerate(source):
                if count % STEP == 0:
                    progress.update(source.position, count)
                yield published


def _judge(
    a: str, b: str, found: Comparison, bound: Bound | None, allowed: float | None, unit: str
) -> int:
    """The exit code; writes the reason if it is not 0."""
    if not found.entities:
        what = "facets" if unit == "facets" else "a summary"
        return output.exit_code([f"there is nothing to compare: neither {a} nor {b} has {what}"])
    if bound is None or allowed is None or found.beyond <= allowed:
        return 0
    limit = f"{bound.value:g} %" if bound.is_percentage else f"{bound.value:,}"
    problem = (
        f"{found.beyond:,} of {output.many(found.entities, unit)} are changed or missing "
        f"({100 * found.beyond / found.entities:.2f} %): --max-changed allows {limit}"
    )
    return output.exit_code([problem])


def _report(a: str, b: str, found: Comparison, allowed: float | None) -> dict[str, Any]:
    from msgspec import to_builtins

    fields = to_builtins(found, str_keys=True)
    for side in "ab":
        missing = getattr(found, f"some_missing_in_{side}")
        fields[f"some_missing_in_{side}"] = [
            sentence.entity_id if sentence.facet is None else sentence._asdict()
            for sentence in missing
        ]
    return {
        "a": a,
        "b": b,
        "entities": found.entities,
        "beyond": found.beyond,
        "ok": None if allowed is None else bool(found.entities) and found.beyond <= allowed,
        **fields,
    }


def _show(a: str, b: str, found: Comparison, unit: str) -> None:
    show_facts((("A", a), ("B", b)))
    output.say("")
    counts = Column(unit), Column("", right=True), Column("share", right=True)
    show_table(counts, list(_counts(found)))
    if found.k_a != found.k_b:
        k_a, k_b = (", ".join(map(str, ks)) or "-" for ks in (found.k_a, found.k_b))
        output.say(f"k is {k_a} in A and {k_b} in B: differences by k alone count as contained")
    if found.differing:
        output.say("")
        most = max(found.differing.values())
        bars = Column("sentences that differ", right=True), Column(unit, right=True), Column("")
        show_table(
            bars,
            [
                (number, f"{count:,}", "█" * max(1, round(BAR_WIDTH * count / most)))
                for number, count in found.differing.items()
            ],
        )
    for example in found.examples:
        output.say("")
        heading = f"{_name(example)}: {example.differing} differ, {example.both} in both"
        output.say(heading, style="bold")
        only_a, only_b = (
            [f"{sentence.rank + 1}. {sentence.text}" for sentence in side]
            for side in (example.only_a, example.only_b)
        )
        texts = Column("only in A", prose=PROSE), Column("only in B", prose=PROSE)
        show_table(texts, list(zip_longest(only_a, only_b, fillvalue="")))
    for name, some, count in (
        ("A", found.some_missing_in_a, found.missing_in_a),
        ("B", found.some_missing_in_b, found.missing_in_b),
    ):
        if some:
            more = f" and {count - len(some):,} more" if count > len(some) else ""
            output.say("")
            output.say(f"missing in {name}: {', '.join(map(_name, some))}{more}")


def _counts(found: Comparison) -> Iterator[tuple[object, ...]]:
    counts = {
        "equal": found.equal,
        "  of them identical": found.identical,
        "contained": found.contained,
        "changed": found.changed,
        "missing in A": found.missing_in_a,
        "missing in B": found.missing_in_b,
        "together": found.entities,
    }
    for name, count in counts.items():
        if count or name != "contained":
            yield name, f"{count:,}", f"{100 * count / (found.entities or 1):.2f} %"


def _name(difference: SetName | Example) -> str:
    entity_id, facet = difference.entity_id, difference.facet
    return entity_id if facet is None else f"{entity_id}, {facet}"
