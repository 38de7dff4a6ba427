"""Options, arguments and messages that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.errors import SetupError
from worker.facets import PRESETS
from worker.view import output

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic
    from worker.operations.letters import LetterSelection, Place
    from worker.processing.entity_view import Extent
    from worker.sources.mapped import LineMapping

F = TypeVar("F", bound=Callable[..., Any])


def check_utf8(name: str, value: str) -> None:
    """Raise click.UsageError for an argument that is not UTF-8; ids always are."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{name} is not UTF-8.") from None


class _PathOrPattern(click.Path):
    """A file or folder that exists, or a pattern; `-` is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if has_magic(value) else super().convert(value, param, ctx)


PATH_OR_PATTERN = _PathOrPattern(exists=True, allow_dash=True)
files_argument = click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=PATH_OR_PATTERN
)
"""Files, patterns and folders, for `found_files`."""

facets_file_option = click.option(
    "--facets",
    help="Facets, each with sentences of its own: a TOML file, or preset: and one of "
    f"{', '.join(PRESETS)}.",
)


def target_option(help: str) -> Callable[[F], F]:
    """`-o` and `--output`, for `sink`."""
    path = click.Path(dir_okay=False)
    return click.option("-o", "--output", "target", type=path, metavar="FILE", help=help)


def found_files(named: Sequence[str]) -> list[str]:
    """The files of names, patterns and folders; notes skipped ones. Raises SetupError."""
    from worker.operations.findings import first_names
    from worker.sources import find_files

    paths, skipped = find_files(named)
    if skipped:
        output.note(f"skipped, no reviews by their names: {first_names(skipped)}")
    return paths


def _parse_fields(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Mapping[str, str]:
    also: dict[str, str] = ctx.meta.get("also", {})
    if not (given or also):  # nothing to import for help
        return {}
    from worker.sources import parse_fields

    try:
        return parse_fields(given) | also
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, option) from error


def _add_to_fields(ctx: click.Context, option: click.Parameter, given: Any) -> None:
    """Keep another option as keys of `fields`, see `worker.events.bare`."""
    also = ctx.meta.setdefault("also", {})
    for text in given if option.name == "where" else ():
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not MEMBER=VALUE.", ctx, option)
        also[f"where {name.strip()}"] = value.strip()
    if option.name == "dates" and given:
        from worker.events.dates import is_format

        if not is_format(given):
            raise click.BadParameter(f"{given!r} has no day, month or year.", ctx, option)
    if given and option.name != "where":
        also[str(option.name)] = str(given)


def fields_option(command: F) -> F:
    """`--fields`, and `--unescape`, `--dates`, `--bytes`, `--where`: keys of `fields` too."""
    also = partial(click.option, is_eager=True, expose_value=False, callback=_add_to_fields)
    for option in (
        also(
            "--unescape",
            is_flag=True,
            help="In texts of bare reviews, read a backslash and an n as a line break, also \\t, "
            '\\r, \\", \\\\.',
        ),
        also(
            "--dates",
            metavar="FORMAT",
            help="How bare reviews write dates, such as %d.%m.%Y %H:%M (Python's strptime).",
        ),
        also(
            "--bytes",
            type=click.Choice(["hex"]),
            help="Write ids of Parquet that are bytes, such as the 16 of a UUID, as digits.",
        ),
        also(
            "--where",
            multiple=True,
            metavar="MEMBER=VALUE",
            help="Only bare reviews with this value, or one of several: state=APPROVED|EDITED.",
        ),
        click.option(
            "--fields",
            multiple=True,
            callback=_parse_fields,
            metavar="FIELD=COLUMN,...",
            help="Columns of a CSV, TSV or Parquet file, or members of bare reviews in JSON, by "
            "field: entity_id=asin,review_id=id,text=body; also rating, language, occurred_at, "
            "verified, country, author_id. shop+sku joins two, _id.$oid is a path, #1 a first "
            "column without a name.",
        ),
    ):
        command = option(command)
    return command


mapping_option = click.option(
    "--mapping",
    "mapping_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What the lines mean, each a record as `mapping check --sample` reads it: a mapping in "
    "TOML or Python.",
)


def line_mapping(file: Path | None, fields: Mapping[str, str], topic: str) -> LineMapping | None:
    """The mapping of files' lines. Raises SetupError and FileErrors."""
    if file is None:
        return None
    if fields:
        raise click.UsageError("--mapping and --fields exclude each other.")
    from worker.mapping import load_mapping
    from worker.sources.mapped import LineMapping

    return LineMapping(load_mapping(file, topic))


class Parsed(click.ParamType):
    """A type from a function, whose ValueError is the message to the user."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_time(text: str) -> int:
    """A date or time as in RFC 3339, UTC by default, in milliseconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time like 2026-11-20T12:00:00Z or 2026-11-20."
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


TIME = Parsed("TIME", parse_time)


def limit_option(help: str) -> Callable[[F], F]:
    """The `--limit` option."""
    return click.option("--limit", type=click.IntRange(min=1), help=help)


def facets_option(help: str) -> Callable[[F], F]:
    """The `--facets` option of what reads published changes."""

    def kind(_context: click.Context, _option: click.Parameter, is_given: bool) -> OutputTopic:
        from worker.events.publishing import FACETS, SUMMARIES

        return FACETS if is_given else SUMMARIES

    return click.option("--facets", "kind", is_flag=True, callback=kind, help=help)


def _check_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url!r} is not a URL like http://127.0.0.1:8080.")
    return url


url_option = click.option(
    "--url",
    callback=_check_url,
    help="Any running worker; by default the web address of the settings on this machine.",
)


def data_dir_option(help: str) -> Callable[[F], F]:
    """The `--data-dir` option."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option("--data-dir", type=folder, help=help)


MAX_SENTENCES, MAX_WORDS = 100, 10_000


def view_options(command: F) -> F:
    """`--view` and the options of `extent_of`."""
    for option in (
        click.option(
            "--language",
            help="Facets, overview: only facets of this language, such as fr. The default of an "
            "overview is the entity's main language.",
        ),
        click.option(
            "--threshold",
            type=click.FloatRange(0, 1, max_open=True),
            help="Short view, overview: cosine above which a sentence repeats another (0.8).",
        ),
        click.option(
            "--words",
            type=click.IntRange(1, MAX_WORDS),
            help="Short view, overview: maximum number of words; sentences that do not fit are "
            "skipped.",
        ),
        click.option(
            "--sentences",
            type=click.IntRange(1, MAX_SENTENCES),
            help="Short view, overview: maximum number of sentences (10; with --words no limit).",
        ),
        click.option(
            "--view",
            type=click.Choice(["set", "short", "facets", "overview"]),
            default="set",
            show_default=True,
            help="`set`: the summary. `short`: nearest sentences first, without near "
            "repetitions, and how many sentences each one stands for. `facets`: each facet with "
            "its sentences. `overview`: sentences of the facets in turn, no near repetitions.",
        ),
    ):
        command = option(command)
    return command


def extent_of(
    view: str,
    sentences: int | None,
    words: int | None,
    threshold: float | None,
    language: str | None,
) -> Extent | None:
    """The limits of the view; None if it has none. Raises click.UsageError."""
    if language is not None and view in ("set", "short"):
        raise click.UsageError("--language is for --view facets or overview.")
    if view in ("set", "facets"):
        if (sentences, words, threshold) != (None, None, None):
            raise click.UsageError(
                "--sentences, --words and --threshold are for --view short or overview."
            )
        if language is None:
            return None
    from worker.processing.entity_view import THRESHOLD, Extent

    try:
        return Extent(sentences, words, THRESHOLD if threshold is None else threshold, language)
    except ValueError as wrong:  # a threshold of `nan`, which every range accepts
        raise click.UsageError(f"--{wrong}.") from wrong


yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask; required without a terminal on standard input."
)
NOTHING = "nothing changed"
DECLINED = 1  # the exit code after `n`, so that `reset && run` stops


def check_can_ask(yes: bool, dry_run: bool) -> None:
    """Raise SetupError if a question is needed and standard input is not a terminal."""
    if not (yes or dry_run or output.is_terminal(sys.stdin)):
        raise SetupError(
            "standard input is not a terminal, so nobody can confirm: pass --yes, or --dry-run"
        )


def agreed(question: str, yes: bool) -> bool:
    """True if the user agrees; notes a refusal. Raises click.Abort at Ctrl-C and end of input."""
    if yes:
        return True
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # end the question's line
        output.note(NOTHING)
        raise
    if not answer:
        output.note(NOTHING)
    return answer


def _parse_place(text: str) -> Place:
    from worker.operations.letters import Place

    match = re.fullmatch("([0-9]{1,10}):([0-9]{1,19})", text)
    if match is None:
        raise ValueError(f"{text!r} is not PARTITION:OFFSET like 3:991.")
    return Place(int(match[1]), int(match[2]))


PLACE = Parsed("PARTITION:OFFSET", _parse_place)


def _complete_reason(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from worker.events import Reason

    return [reason.value for reason in Reason if reason.value.startswith(incomplete)]


def selection_options(command: F) -> F:
    """`--reason`, `--since`, `--entity` and `--max-attempts`, for `selection_of`."""
    for option in (
        click.option(
            "--max-attempts",
            type=click.IntRange(min=1),
            metavar="N",
            help="Only letters whose record was sent again fewer than N times.",
        ),
        click.option("--entity", metavar="ID", help="Only letters with this key."),
        click.option("--since", type=TIME, help="Only letters written at this time or later."),
        click.option(
            "--reason",
            "reasons",
            multiple=True,
            metavar="CODE",
            shell_complete=_complete_reason,
            help="Only letters with this reason; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def selection_of(
    reasons: tuple[str, ...],
    since_ms: int | None,
    entity_id: str | None,
    max_attempts: int | None,
    places: tuple[Place, ...] = (),
) -> LetterSelection:
    """The letters that the options select. Raises click.UsageError for an unknown reason."""
    from worker.events import Reason
    from worker.operations.letters import LetterSelection

    known = {reason.value for reason in Reason}
    if unknown := sorted(set(reasons) - known):
        raise click.UsageError(f"--reason {unknown[0]!r} is none of {', '.join(sorted(known))}.")
    return LetterSelection(frozenset(reasons), since_ms, entity_id, frozenset(places), max_attempts)
