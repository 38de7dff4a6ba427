"""The tables of what copies do, from the record of `python -m tests.bench.quality.copies`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record

WAYS = {
    "reviews": "`reviews`, the default",
    "reviews, distinct": "`reviews` with `distinct`",
    "texts": "`texts`",
}


def summaries_table(record: Mapping[str, Any]) -> str:
    """Kept of the 20 of a summary, by what was added."""
    of = {(row["weigh"], row["copies"]): row for row in record["summary"]}
    counts = list(dict.fromkeys(copies for _, copies in of))
    rows = (
        (
            name,
            *(_kept(of[way, copies]) for copies in counts),
            str(record["paraphrases"][way]),
            _kept(record["honest"][way]),
        )
        for way, name in WAYS.items()
    )
    added = (f"{copies} copies" for copies in counts)
    paraphrases = f"{record['forms']} paraphrases"
    return markdown(("weigh", *added, paraphrases, "of honest stays as with `texts`"), rows)


def facets_table(record: Mapping[str, Any]) -> str:
    """Kept of the three of each facet."""
    return markdown(
        ("facet", "sentences", *WAYS.values()),
        (
            (row["facet"], str(row["sentences"]), *(_kept(row[way]) for way in WAYS))
            for row in sorted(record["facets"], key=lambda row: -row["sentences"])
        ),
    )


def when(record: Mapping[str, Any]) -> str:
    """Where, when, and of what."""
    of, share = record["honest"], record["honest"]["copies"]
    return (
        f"Measured on {machine_of(dict(record))}. The {of['stays']} stays have "
        f"{100 * share['mean']:.1f} % copies, at most {100 * share['most']:.1f} %."
    )


def _kept(found: Mapping[str, float]) -> str:
    """The mean, and the least where it is another number."""
    mean = f"{found['mean']:.1f}".removesuffix(".0")
    return mean if found["mean"] == found["least"] else f"{mean} ({found['least']})"


def _recorded(table: Callable[[Mapping[str, Any]], str]) -> str:
    return table(read_record("quality_copies.json"))


RECORDED: dict[str, Callable[[], str]] = {
    "copies": partial(_recorded, summaries_table),
    "copies_in_facets": partial(_recorded, facets_table),
    "copies_when": partial(_recorded, when),
}
