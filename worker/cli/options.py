"""Options that commands share which read files of reviews."""

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from glob import has_magic
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output
from worker.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from worker.settings import Settings
    from worker.sources import Faulty, LeftOut


MOST_SHOWN = 5
"""Files that are told by name."""
F = TypeVar("F", bound="Callable[..., Any]")


def check_utf8(name: str, value: str) -> None:
    """Raise click.UsageError where an argument holds bytes that are not UTF-8, as no id does."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{name} is not UTF-8.") from None


def _parsed(
    ctx: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> Mapping[str, str]:
    if not given:
        return {}
    from worker.sources import parse_fields

    try:
        return parse_fields(given)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, option) from error


class _Named(click.Path):
    """A file or folder that exists, or a pattern; `-` is standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See `click.Path`."""
        return value if has_magic(value) else super().convert(value, param, ctx)


def files_argument(command: F) -> F:
    """The files to read, as they are named; `found_files` says which they are."""
    return click.argument(
        "files",
        metavar="FILE...",
        nargs=-1,
        required=True,
        type=_Named(exists=True, allow_dash=True),
    )(command)


def found_files(named: "Sequence[str]") -> list[str]:
    """The files that names, patterns and folders stand for; what is passed over is told. Raises
    SetupError.
    """
    from worker.sources import find_files

    paths, skipped = find_files(named)
    if skipped:
        more = f" and {len(skipped) - MOST_SHOWN:,} more" if len(skipped) > MOST_SHOWN else ""
        output.note(
            f"passed over, no reviews by their names: {', '.join(skipped[:MOST_SHOWN])}{more}"
        )
    return paths


def fields_option(command: F) -> F:
    """The `--fields` option, handed to the command as a mapping from fields to columns."""
    return click.option(
        "--fields",
        multiple=True,
        callback=_parsed,
        metavar="FIELD=COLUMN,...",
        help="Which columns of a CSV, TSV or Parquet (members of bare reviews in JSON) stand for which fields: "
        "entity_id=asin,review_id=id,text=body; also rating, language, occurred_at.",
    )(command)


class TimeType(click.ParamType):
    """A date or a time as in RFC 3339, in UTC where it names no offset; milliseconds since 1970."""

    name = "TIME"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """See `click.ParamType`."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is not a time like 2026-11-20T12:00:00Z or 2026-11-20.", param, ctx
            )
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on


def url_option(command: F) -> F:
    """The `--url` option; click.UsageError for what is no URL."""
    return click.option(
        "--url",
        callback=_checked,
        help="Of any running worker; without it, the settings' web address on this machine.",
    )(command)


def local_url(settings: "Settings") -> str:
    """Of the worker on this machine that has these settings."""
    host = settings.web_bind if settings.web_bind not in EVERYWHERE else "127.0.0.1"
    return f"http://{host}:{settings.web_port}"


def _checked(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url!r} is not a URL like http://127.0.0.1:8080.")
    return url


NOTHING = "nothing changed"
DECLINED = 1
"""The exit code after `n`, so that a script goes on (`reset && run`) only where it was done."""


def check_can_ask(yes: bool, dry_run: bool) -> None:
    """Raise SetupError where there would have to be a question and nobody is there to answer
    it.
    """
    if not (yes or dry_run or _has_terminal()):
        raise SetupError(
            "standard input is no terminal, so nobody can be asked: pass --yes to do it, or --dry-run to see what would be done"
        )


def agreed(question: str, yes: bool) -> bool:
    """Whether it is to be done; says so where it is not. Ctrl-C and the end of the input are raised
    as click.Abort.
    """
    if yes:
        return True
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the question's line is not over
        output.note(NOTHING)
        raise
    if not answer:
        output.note(NOTHING)
    return answer


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


MOST_FINDINGS = 10
"""Lines that are told one by one."""


class Findings:
    """The lines that cannot be used: told as they come, the first ten, and counted by reason."""

    def __init__(self, where: "Callable[[int], str]") -> None:
        """`where`: what a line (from 1) is called."""
        self._where = where
        self.reasons: Counter[str] = Counter()

    def add(self, fault: "Faulty") -> None:
        """Another one."""
        self.reasons[fault.reason] += 1
        if self.total <= MOST_FINDINGS:
            output.note(f"{self._where(fault.line)}: {fault.reason}: {fault.detail}")
        elif self.total == MOST_FINDINGS + 1:
            output.note("more lines that cannot be used are counted, not shown")

    @property
    def total(self) -> int:
        """How many there are."""
        return self.reasons.total()

    def complain(self, lines: int, unit: str) -> None:
        """One line of error about all of them, if there are any."""
        if self.total:
            output.complain(
                f"{self.total:,} of {lines:,} {unit} could not be used: {counted(self.reasons)}"
            )


def counted(reasons: "Counter[str]") -> str:
    """Counts by reason, the most frequent first."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())


def warn_left_out(left_out: "Mapping[str, LeftOut]", where: "Callable[[int], str]") -> None:
    """One line for each field that was left out of some reviews; `where`: what a line (from 1) is
    called.
    """
    wanted = {
        "occurred_at": "no date with one meaning (2019-03-04 and March 4, 2019 have one, 03/04/2019 has not)",
        "rating": "not a number",
    }
    for field, found in left_out.items():
        reviews = output.many(found.count, "reviews")
        output.note(
            f"warning: {field} was left out of {reviews}: {wanted[field]}; first in {where(found.first_line)}: "
            f"{str(found.first_value)[:60]!r}"
        )
