"""Options that commands share which read files of reviews."""

from collections.abc import Mapping
from glob import has_magic
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_SHOWN = 5
"""Files that are told by name."""

F = TypeVar("F", bound="Callable[..., Any]")


def check_utf8(name: str, value: str) -> None:
    """Raise click.UsageError where an argument holds bytes that are not UTF-8, as no id does."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise click.UsageError(f"{name} is not UTF-8.") from None


def _parsed(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    if not given:
        return {}
    from worker.operations.files import parse_fields

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
        "files", metavar="FILE...", nargs=-1, required=True, type=_Named(exists=True, allow_dash=True)
    )(command)


def found_files(named: "Sequence[str]") -> list[str]:
    """The files that names, patterns and folders stand for; what is passed over is told. Raises SurroundingsError."""
    from worker.operations.files import find_files

    paths, skipped = find_files(named)
    if skipped:
        more = f" and {len(skipped) - MOST_SHOWN:,} more" if len(skipped) > MOST_SHOWN else ""
        output.note(f"passed over, no reviews by their names: {', '.join(skipped[:MOST_SHOWN])}{more}")
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
