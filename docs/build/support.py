"""The tables about support and suggested facets, from the record of `make quality`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from docs.build.facets import NAMES, interval_of
from docs.build.quality import score
from docs.build.tables import markdown
from tests.bench.tables import read_record


def support_table(record: Mapping[str, Any]) -> str:
    """Each summary with its support, the best first."""
    rows = sorted(record["support"], key=lambda row: -row["of_a_sentence"])
    return markdown(
        (
            "75 words of",
            "support of a sentence",
            "rare sentences",
            "support",
            "sentences",
            "mean of the references",
        ),
        (
            (
                row["summary"]
                if row["summary"] == "people"
                else f"*{row['summary']}, published*"
                if row["published"]
                else NAMES.get(row["summary"], row["summary"]),
                f"{row['of_a_sentence']:.2f}",
                f"{100 * row['rare']:.0f} %",
                f"{row['support']:.2f}",
                f"{row['sentences']:.1f}",
                score(row["mean"]) if "mean" in row else "",
            )
            for row in rows
        ),
    )


def suggested_table(record: Mapping[str, Any]) -> str:
    """The overview of suggested facets by how many were asked for."""
    return markdown(
        (
            "`--facets`",
            "not hidden",
            "mean of the references",
            "R1 from facets with written phrases, 95 %",
            "R1 from the summary of everything, 95 %",
        ),
        (
            (
                f"{row['asked']}",
                f"{row['shown']}",
                score(row["mean"]),
                interval_of(row["from_written"]),
                interval_of(row["from_plain"]),
            )
            for row in record["suggested"]["overviews"]
        ),
    )


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "support": support_table,
    "suggested": suggested_table,
}


def _recorded(table: Callable[[Mapping[str, Any]], str]) -> str:
    return table(read_record("quality_support.json"))


RECORDED: dict[str, Callable[[], str]] = {
    name: partial(_recorded, table) for name, table in TABLES.items()
}
