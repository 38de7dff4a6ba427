"""The tables about facets, from the records of `make quality` and of the sentences judged."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from docs.build.quality import OURS, score
from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record
from worker.events.outputs import FACETS_CHANGED

NAMES = {OURS: "the summary of everything", "facets": "**facets, read in turn**"}


def overviews_table(record: Mapping[str, Any]) -> str:
    """The overview of facets among other ways to one and published texts, the best first."""
    rows = sorted(record["overviews"], key=lambda row: -row["mean"][0])
    return markdown(
        (
            "75 words of",
            "mean of the references",
            "jackknife of the best",
            "R1 from the summary of everything, 95 %",
            f"R1 from {record['rival']}, 95 %",
            "repeats",
            "near",
        ),
        (
            (
                f"*{row['method']}, published*"
                if row["published"]
                else NAMES.get(row["method"], row["method"]),
                score(row["mean"]),
                score(row["jackknife"]),
                "" if row["method"] == OURS else interval_of(row["from_plain"]),
                "" if row["method"] == record["rival"] else interval_of(row["from_rival"]),
                "" if row["published"] else f"{row['repeats']:.2f}",
                "" if row["published"] else f"{row['near']:.2f}",
            )
            for row in rows
        ),
    )


def phrasings_table(record: Mapping[str, Any]) -> str:
    """R1 by phrasing and threshold."""
    rows = record["phrasings"]
    of = {(row["phrasing"], row["threshold"]): row for row in rows}
    thresholds = list(dict.fromkeys(row["threshold"] for row in rows))
    return markdown(
        ("phrases", "of *location*", *(f"{threshold}" for threshold in thresholds)),
        (
            (
                phrasing,
                " ".join(f"`{phrase}`" for phrase in of[phrasing, thresholds[0]]["example"]),
                *(
                    f"{row['r1']:.2f} ({100 * row['share']:.0f} %)"
                    for row in (of[phrasing, threshold] for threshold in thresholds)
                ),
            )
            for phrasing in dict.fromkeys(row["phrasing"] for row in rows)
        ),
    )


def aspects_table(record: Mapping[str, Any]) -> str:
    """R1 of each facet against the references of its aspect, beside published texts."""
    rows = record["aspects"]
    aspects = list(dict.fromkeys(row["aspect"] for row in rows))
    of = {(row["method"], row["aspect"]): row for row in rows}
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        each = [of[method, aspect] for aspect in aspects]
        means = [
            statistics.fmean(values) for values in zip(*(row["mean"] for row in each), strict=True)
        ]
        lines.append((method, *(f"{row['mean'][0]:.1f}" for row in each), score(means)))
    return markdown(("method", *(f"{aspect}, R1" for aspect in aspects), "all, mean"), lines)


def shown_table(record: Mapping[str, Any]) -> str:
    """What a reader of all facets of a preset gets."""
    return markdown(
        (
            "of",
            "preset",
            "sentences in a facet shown",
            "in a hidden one",
            "repeats in a facet",
            "repeats across facets",
            "with a twin in another facet",
            "repeats in the summary of everything",
        ),
        (
            (
                row["entities"],
                f"`{row['preset']}`",
                *(f"{100 * row[field]:.0f} %" for field in ("members", "hidden")),
                *(f"{row[field]:.2f}" for field in ("within", "across")),
                f"{100 * row['twins']:.0f} %",
                f"{row['plain']:.2f}",
            )
            for row in record["shown"]
        ),
    )


def changes_table(record: Mapping[str, Any]) -> str:
    """How many messages of both types are published."""
    return markdown(
        (
            "of",
            "preset",
            "reviews",
            "`EMIT_MIN_CHANGES`",
            "`summary.changed`",
            f"`{FACETS_CHANGED}`",
            "facets that each names",
        ),
        (
            (
                row["entities"],
                f"`{row['preset']}`",
                f"{row['reviews']:,}",
                str(row["m"]),
                f"{row['summary.changed']:,}",
                f"{row[FACETS_CHANGED]:,}",
                f"{row['facets_named']:.1f}",
            )
            for row in record["changes"]
        ),
    )


def judged_table(record: Mapping[str, Any]) -> str:
    """By preset and facet how many of the sentences drawn belong there."""
    lines = []
    for preset, of in record["presets"].items():
        facets = of["facets"]
        shares = ", ".join(f"{name} {right}/{drawn}" for name, (right, drawn) in facets.items())
        right, drawn = (sum(values) for values in zip(*facets.values(), strict=True))
        lines.append((f"`{preset}`", of["of"], f"{right} of {drawn}", shares))
    return markdown(("preset", "judged on", "belong there", "by facet"), lines)


def words_table(record: Mapping[str, Any]) -> str:
    """By preset and facet precision and recall of the words, weighted by the sizes of the strata
    that the sentences were drawn from.
    """
    lines = []
    for preset, of in record["presets"].items():
        for facet, strata in of["after"].items():
            lines.append((f"`{preset}`", facet, *_precision_and_recall(strata)))
    return markdown(("preset", "facet", "precision", "recall"), lines)


def _precision_and_recall(strata: Mapping[str, Sequence[int]]) -> tuple[str, str]:
    right = [size * belong / drawn for size, drawn, belong in strata.values()]
    _, drawn, belong = strata["with"]
    return f"{belong / drawn:.2f}", f"{right[0] / sum(right):.2f}"


def words_languages_table(record: Mapping[str, Any]) -> str:
    """By language what the words of `stays` name, over all nine facets."""
    names = ("sentences", "named", "wrong", "missed")
    lines = [
        (language, *(str(of[name]) for name in names))
        for language, of in record["languages"].items()
    ]
    return markdown(("language", "sentences read", "facets named", "wrong", "missed"), lines)


def when(record: Mapping[str, Any]) -> str:
    """Where and when."""
    return f"Measured on {machine_of(record)}."


def interval_of(ends: tuple[float, float]) -> str:
    """The ends of an interval, with signs."""
    return "{:+.1f} to {:+.1f}".format(*ends)


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "facets_overviews": overviews_table,
    "facets_phrasings": phrasings_table,
    "facets_by_aspect": aspects_table,
    "facets_shown": shown_table,
    "facets_changes": changes_table,
    "facets_when": when,
}


def _recorded(table: Callable[[Mapping[str, Any]], str], name: str) -> str:
    return table(read_record(name))


RECORDED: dict[str, Callable[[], str]] = {
    name: partial(_recorded, table, "quality_facets.json") for name, table in TABLES.items()
}
JUDGED: dict[str, Callable[[], str]] = {
    "judged": partial(_recorded, judged_table, "facets_judged.json"),
    "words_judged": partial(_recorded, words_table, "words_judged.json"),
    "words_languages": partial(_recorded, words_languages_table, "words_judged.json"),
}
