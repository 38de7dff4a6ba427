"""Options, arguments and messages that several commands share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output
from worker.errors import SetupError

if TYPE_CHECKING:
    from worker.events.publishing import OutputTopic
    from worker.processing.entity_view import Extent
    from worker.sources import Faulty, ReviewFiles

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


files_argument = click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=_PathOrPattern(exists=True, allow_dash=True),
)
"""Files, patterns and folders, for `found_files`."""
MAX_NAMES = 5  # skipped files that a message lists


def target_option(help: str) -> Callable[[F], F]:
    """`-o` and `--output`, for `sink`."""
    path = click.Path(dir_okay=False)
    return click.option("-o", "--output", "target", type=path, metavar="FILE", help=help)


def found_files(named: Sequence[str]) -> list[str]:
    """The files of names, patterns and folders; notes skipped ones. Raises SetupError."""
    from worker.sources import find_files

    paths, skipped = find_files(named)
    if skipped:
        more = f" and {len(skipped) - MAX_NAMES:,} more" if len(skipped) > MAX_NAMES else ""
        names = ", ".join(skipped[:MAX_NAMES])
        output.note(f"skipped, no reviews by their names: {names}{more}")
    return paths


def _parse_fields(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Mapping[str, str]:
    is_escaped = ctx.meta.get("unescape", False)
    if not (given or is_escaped):  # nothing to import for help
        return {}
    from worker.sources import UNESCAPE, parse_fields

    try:
        return parse_fields(given) | ({UNESCAPE: "yes"} if is_escaped else {})
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, option) from error


def fields_option(command: F) -> F:
    """`--fields` and `--unescape`, which is a key of `fields` too."""
    command = click.option(
        "--unescape",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, is_given: ctx.meta.update(unescape=is_given),
        help="In texts of bare reviews, read a backslash and an n as a line break, also \\t, "
        '\\r, \\", \\\\.',
    )(command)
    return click.option(
        "--fields",
        multiple=True,
        callback=_parse_fields,
        metavar="FIELD=COLUMN,...",
        help="Columns of a CSV, TSV or Parquet file, or members of bare reviews in JSON, by field: "
        "entity_id=asin,review_id=id,text=body; also rating, language, occurred_at, "
        "verified, country, author_id.",
    )(command)


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


COALESCED_LINES = 1000  # lines whose net change `summarize --emit coalesced` writes
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
    """Whether the user agrees; notes a refusal. Raises click.Abort at Ctrl-C and end of input."""
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


MAX_FINDINGS = 10  # unusable lines that are shown one by one


class Findings:
    """Unusable lines: the first ten are shown, all are counted by reason."""

    def __init__(self, reviews: ReviewFiles) -> None:
        self._reviews = reviews
        self._count = 0
        self.reasons: Counter[str] = Counter()

    def add(self, fault: Faulty) -> None:
        """Count a line, or several, and show it while there are few."""
        self.reasons[fault.reason] += fault.lines
        self._count += 1
        if self._count <= MAX_FINDINGS:
            field, colon, detail = fault.detail.partition(":")
            where = self._reviews.where(fault.line)
            output.note(f"{where}: {fault.reason}: {self._reviews.named(field)}{colon}{detail}")
        elif self._count == MAX_FINDINGS + 1:
            output.note("more lines that cannot be used are counted, not shown")

    @property
    def total(self) -> int:
        """The number of unusable lines."""
        return self.reasons.total()

    def complain(self, lines: int, unit: str) -> None:
        """Warn about files without a record, and write one error line about all unusable lines."""
        if empty := self._reviews.empty:
            more = f" and {len(empty) - MAX_NAMES:,} more" if len(empty) > MAX_NAMES else ""
            names = ", ".join(empty[:MAX_NAMES])
            output.note(f"warning: no reviews and no events in {names}{more}")
        if self.total:
            output.complain(
                f"{self.total:,} of {lines:,} {unit} could not be used: {counted(self.reasons)}"
            )


def counted(reasons: Counter[str]) -> str:
    """Counts by reason, the most frequent first."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())


MIN_BREAKS = 2
"""Reviews from which on a backslash and an n are hardly what somebody wrote."""


def warn_left_out(reviews: ReviewFiles) -> None:
    """Warn about fields that were left out of reviews, and other values that look wrong."""
    from worker.sources import BREAKS, HALVES, HEADER

    for field, found in reviews.left_out.items():
        count = output.many(found.count, "rows" if field == HEADER else "reviews")
        place = f"first in {reviews.where(found.first_line)}"
        first = f"{place}: {str(found.first_value)[:60]!r}"
        name, have = reviews.named(field), "has" if found.count == 1 else "have"
        problems = {
            "occurred_at": "no date with one meaning "
            "(2019-03-04 and March 4, 2019 have one, 03/04/2019 has not)",
            "rating": "not a number",
            "verified": "neither yes nor no",
            "country": "not a text",
            "author_id": "neither a text nor a number",
        }
        messages = {
            "text": f"{name} is empty in {count}, which {have} no sentence; {place}",
            HEADER: f"the header is repeated in {count}, skipped; {place}",
            HALVES: f"half of an emoji became U+FFFD in {count}; {place}",
            BREAKS: f"a text has a backslash and an n in {count}; {place}; if these are line "
            "breaks, pass --unescape",
        }
        message = messages.get(
            field, f"{name} was left out of {count}: {problems.get(field)}; {first}"
        )
        if field != BREAKS or found.count >= MIN_BREAKS:
            output.note(f"{'hint' if field == BREAKS else 'warning'}: {message}")
