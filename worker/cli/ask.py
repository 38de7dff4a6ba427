"""`ask`: the sentences of an entity that answer a question."""

from __future__ import annotations

from typing import Any

import click

from worker.cli.group import new_command
from worker.cli.options import check_utf8, url_option
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

COLUMNS = (
    Column("cosine", lambda row: f"{row['cosine']:.2f}", right=True),
    Column("text", prose=PROSE),
    Column("rating", drop=2, right=True),
    Column("date", lambda row: (row["occurred_at"] or "")[:10], drop=3),
    Column("sentence id", "sentence_id", drop=4),
)
CHOICES = (
    ("--sentences", "N", "At most so many. [default: 5]"),
    ("--rating-min", "N", "Only reviews rated so high."),
    ("--rating-max", "N", "Only reviews rated so low."),
    ("--language", "CODE", "Only reviews in this language."),
    ("--country", "CODE", "Only reviews from this country."),
    ("--verified", "true|false", "Only reviews that are verified, or not."),
    ("--since", "DATE", "Only reviews from this date on."),
    ("--until", "DATE", "Only reviews before this date."),
)


def _choices(command: Any) -> Any:
    for name, metavar, help in reversed(CHOICES):
        command = click.option(name, metavar=metavar, help=help)(command)
    return command


@new_command(
    "ask",
    ("ask B00X 'Is the battery good?'", "what its reviews say, from the worker on this machine"),
    ("ask B00X 'Is it loud?' --rating-max 2", "what its worst reviews say of it"),
    ("ask B00X 'Is it loud?' --since 2026-06-01 --json", "of late, as JSON"),
)
@click.argument("entity")
@click.argument("question")
@_choices
@url_option
@output.json_option
def command(
    entity: str, question: str, url: str | None, as_json: bool, **chosen: str | None
) -> int:
    """Show the sentences of an entity that answer a question, nearest first, as of one offset.

    Exit code 1 if nobody says so, or if the entity is unknown.
    """
    check_utf8("ENTITY", entity)
    check_utf8("QUESTION", question)
    from worker.operations.entity_sources import local_worker, served

    given = {name: value for name, value in chosen.items() if value is not None}
    url = url or local_worker(Settings.from_environment())
    answer = served(url, entity, "ask", {"q": question, **given})
    if not answer:
        return output.exit_code([f"there is no entity {entity!r}"])
    if as_json:
        output.print_json(answer)
    else:
        show(answer["sentences"], COLUMNS, as_json)
        output.say(_summary(answer))
    return 1 if answer["answered"] is False else 0


def _summary(answer: dict[str, Any]) -> str:
    asked = output.many(answer["asked_review_count"], "reviews")
    word = answer["mentions"]
    has = f"; {word['review_count']:,} have the word {word['word']!r}" if word else ""
    if answer["answered"] is None:
        return f"the nearest of {asked}{has}: the model declares no cosines that answer"
    if not answer["answered"]:
        return f"nobody says so, of {asked}{has}"
    return f"at least {answer['answer_review_count']:,} of {asked} speak of it{has}"
