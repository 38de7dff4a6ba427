"""`inspect`: an entity's summary, reviews or history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from worker.cli.group import new_command
from worker.cli.history import CHANGES_SHOWN, list_changes
from worker.cli.options import check_utf8, extent_of, url_option, view_options
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show, show_facts


def _distance(row: dict[str, Any]) -> str:
    return f"{row['distance']:.6f}" if "distance" in row else ""


REVIEW_COLUMNS = (
    Column("review", "review_id"),
    Column("version", right=True),
    Column("status", lambda row: "deleted" if row.deleted else "live"),
    Column("rating", drop=2, right=True),
    Column("sentences", lambda row: len(row.sentences), drop=1, right=True),
)
SENTENCE = (
    Column("rank", right=True),
    Column("sentence id", "sentence_id", drop=5),
    Column("text", prose=PROSE),
    Column("rating", drop=1, right=True),
)
SET_COLUMNS = (
    *SENTENCE,
    Column("distance", _distance, drop=3, right=True),
    Column("support", drop=2, right=True),
)
COLUMNS = {
    "set": SET_COLUMNS,
    "facets": SET_COLUMNS,
    "short": (
        *SENTENCE,
        Column("distance", _distance, drop=4, right=True),
        Column("stands for", "stands_for", right=True),
        Column("of reviews", "stands_for_reviews", drop=2, right=True),
    ),
}
"""Of sentences, by view."""


@new_command(
    "inspect",
    ("inspect B00X", "its summary, from the worker on this machine"),
    ("inspect B00X --url http://worker-1:8080", "from any worker of a group"),
    ("inspect B00X --view short --words 75", "75 words for readers, without repetitions"),
    ("inspect B00X --view facets", "each of its facets, such as parking"),
    ("inspect B00X --view overview --language fr", "what its French reviews say of each subject"),
    ("inspect B00X --history 5", "its last five changes"),
    ("inspect B00X --reviews", "its reviews, deleted ones too, from COVERSUMM_DATA_DIR"),
)
@click.argument("entity")
@url_option
@click.option(
    "--reviews",
    is_flag=True,
    help="Show the versions of its reviews, deleted ones too, from COVERSUMM_DATA_DIR.",
)
@click.option(
    "--history",
    type=click.IntRange(min=1),
    is_flag=False,
    flag_value=CHANGES_SHOWN,
    metavar="[N]",
    help=f"Show its last N ({CHANGES_SHOWN}) changes from the output topic, the newest last.",
)
@view_options
@click.option("-v", "--verbose", is_flag=True, help="With the overview also its technical fields.")
@output.json_option
def command(
    entity: str,
    url: str | None,
    reviews: bool,
    history: int | None,
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    language: str | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Show an entity's summary, counts and last offsets, as its worker answers. Or show its short
    view, its facets or their overview, its reviews, or its history.

    --reviews reads a data directory, of a worker that is running or not. It may lack the entity's
    partition, or have an old copy of a partition that has moved; a warning says so if a broker
    answers. Exit code 1 if the entity is unknown, 2 if another worker may have it.
    """
    from worker.operations.entity_sources import listed_in, local_worker, served_view

    _check_usage(entity, url, reviews, history)
    extent = extent_of(view, sentences, words, threshold, language)
    if view != "set" and (reviews or history is not None):
        raise click.UsageError(f"--view {view}: leave --reviews and --history out.")
    settings = Settings.from_environment()
    problem = f"there is no entity {entity!r}"
    if history is not None:
        is_found = _show_history(entity, history, settings, as_json)
        problem = f"there is nothing published of {entity!r}"
    elif reviews:
        is_found = _show_reviews(entity, settings, as_json)
    else:
        url = url or local_worker(settings)
        served = served_view(url, entity, view, extent)
        is_found = bool(served)
        if is_found:
            _show_view(served, view, verbose, as_json)
        if not is_found and (at := listed_in(entity, url)):
            problem = (
                f"{entity!r} is in partition {at}, where queries do not look: its producer does "
                "not choose partitions as Kafka's default partitioner does. Set "
                "partitioner=murmur2_random there (librdkafka)"
            )
    return output.exit_code([] if is_found else [problem])


def _check_usage(entity: str, url: str | None, reviews: bool, history: int | None) -> None:
    check_utf8("ENTITY", entity)
    if reviews and history is not None:
        raise click.UsageError("--reviews and --history exclude each other.")
    if url is not None and (reviews or history is not None):
        raise click.UsageError(
            "--reviews needs a data directory, --history the output topic: leave --url out."
        )


def _show_history(entity: str, limit: int, settings: Settings, as_json: bool) -> bool:
    from worker.published.history import last_steps
    from worker.published.published import PublishedTopic

    with PublishedTopic(settings.output_topic, settings) as topic:
        shown = list_changes(last_steps(topic.of(entity), limit), as_json)
    if shown.is_incomplete:
        output.note("changes before or between these were compacted away")
    return bool(shown.changes)


def _show_reviews(entity: str, settings: Settings, as_json: bool) -> bool:
    from worker.operations.copies import StoredReview, look_up

    found: list[StoredReview] = []
    for copy, reviews in look_up(entity, settings):
        found += reviews
        if copy.is_current is False:
            output.note(f"warning: partition {copy.partition} {copy.words}")
    show(found, REVIEW_COLUMNS, as_json)
    return bool(found)


def _show_view(found: dict[str, Any], view: str, verbose: bool, as_json: bool) -> None:
    from worker.view.cards import entity_counts, overview_table

    if as_json:
        output.print_json(found)
        return
    if view == "overview" and not verbose:
        output.say(f"{found['entity_id']} {entity_counts(found)}", "bold")
    else:
        _show_facts(found)
    if view == "overview":
        output.console().print(overview_table(found))
    else:
        _show_sentences(found, COLUMNS[view])


def _show_facts(view: dict[str, Any]) -> None:
    facts = {key: value for key, value in view.items() if key not in ("sentences", "facets")}
    if "ratings" in facts:
        facts["ratings"] = _ratings(facts["ratings"])
    if counts := facts.pop("languages", None):
        facts["languages"] = ", ".join(f"{code} {count:,}" for code, count in counts.items())
    show_facts((name.replace("_", " "), value) for name, value in facts.items())


def _show_sentences(view: dict[str, Any], columns: tuple[Column, ...]) -> None:
    facets = view.get("facets", ())
    sentences = view.get("sentences") or [
        sentence for facet in facets for sentence in facet["sentences"]
    ]
    if all(sentence["rating"] is None for sentence in sentences):
        columns = tuple(column for column in columns if column.name != "rating")
    if facets:
        titles = dict.fromkeys((column.of or column.name for column in columns), "")
        sentences = [
            row
            for facet in facets
            for title, of_facet in _sets(facet)
            for row in ({**titles, "text": title}, *of_facet)
        ]
    show(sentences, columns, False, lambda row: None if "distance" in row else "bold")


def _sets(facet: dict[str, Any]) -> Iterator[tuple[str, Sequence[dict[str, Any]]]]:
    """The sets of a facet: all of its sentences, then its pros and cons if it has any."""
    from worker.events.outputs import SIDES

    yield _title(facet), facet["sentences"]
    for side in SIDES:
        if facet.get(side):
            yield f"{output.facet_label(facet)}, {side}", facet[side]


def _title(facet: dict[str, Any]) -> str:
    parts = [output.many(facet[f"{noun}_count"], f"{noun}s") for noun in ("sentence", "review")]
    if facet["ratings"]["count"]:
        parts.append(f"ratings {_ratings(facet['ratings'])}")
    if "mentions" in facet:
        parts.append(output.many(facet["mentions"]["review_count"], "mentions"))
    return f"{output.facet_label(facet)}: {', '.join(parts)}"


def _ratings(ratings: dict[str, Any]) -> str:
    mean = ratings["mean"]
    return f"{ratings['count']:,}, mean {mean:.2f}" if mean is not None else "none"
