"""The tables about languages, from the record of `make quality-languages`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from docs.build.tables import markdown
from tests.bench.tables import machine_of, read_record

NAMES = {
    "default": "default model",
    "use": "Universal Sentence Encoder, multilingual",
    "e5": "multilingual-e5-small, 4 bits",
}


def detection_table(record: Mapping[str, Any]) -> str:
    """What the detector makes of reviews, by the shortest text that it decides."""
    return markdown(
        (
            "shortest text, bytes of letters",
            "right language",
            "none",
            "wrong one",
            "of those not in English: right",
            "wrong",
        ),
        (
            (
                str(row["least"]),
                *(f"{100 * row['all'][name]:.2f} %" for name in ("right", "none", "wrong")),
                *(f"{100 * row['not_english'][name]:.1f} %" for name in ("right", "wrong")),
            )
            for row in record["detection"]
        ),
    )


def models_table(record: Mapping[str, Any]) -> str:
    """Each model on sentences of several languages, without and with `languages`."""
    models = [record["models"][name] for name in NAMES]
    chance = models[0]["neighbours"]["chance"]
    rows = [
        ("threshold of facets", *(f"{one['threshold']:g}" for one in models)),
        (
            f"nearest neighbour has the same language (by chance {chance:.2f})",
            *(f"{one['neighbours']['same']:.2f}" for one in models),
        ),
    ]
    rows += [
        (f"sentences in {name} ({count}) in a facet of English phrases", *_shares(models, name))
        for name, count in record["sentences"].items()
    ]
    for number, (english, french) in enumerate(one["of"] for one in models[0]["sets"]):
        of = f"{english} English and {french} French sentences"
        found = [one["sets"][number] for one in models]
        rows.append((f"top 20 of {of}", *(_counts(one["summary"]) for one in found)))
        everything = [_counts(one["everything"]) for one in found]
        rows.append((f"*with `languages`*: facets `everything` of {of}", *everything))
    return markdown(("", *NAMES.values()), rows)


def _shares(models: list[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(f"{one['facets'][name]:.2f}" for one in models)


def _counts(of: Mapping[str, int]) -> str:
    return f"{of.get('en', 0)} English, {of.get('fr', 0)} French"


def splitting_line(record: Mapping[str, Any]) -> str:
    """How many ends of sentences the rules by language move."""
    found = record["splitting"]
    more = sum(one["ends_more"] for one in found["changed"] if one["ends_more"] > 0)
    fewer = -sum(one["ends_more"] for one in found["changed"] if one["ends_more"] < 0)
    return (
        f"Of {found['sentences']:,} sentences in {found['reviews']} reviews not in English, the "
        f"rules by\nlanguage end {more} more and {fewer} fewer; one judge read them and found all "
        "right."
    )


def when(record: Mapping[str, Any]) -> str:
    """Where and when."""
    return f"Measured on {machine_of(record)}."


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "languages_detection": detection_table,
    "languages_splitting": splitting_line,
    "languages_models": models_table,
    "languages_when": when,
}


def _recorded(table: Callable[[Mapping[str, Any]], str]) -> str:
    return table(read_record("quality_languages.json"))


RECORDED: dict[str, Callable[[], str]] = {
    name: partial(_recorded, table) for name, table in TABLES.items()
}
