"""Options that commands share which read files of reviews."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def _parsed(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> Mapping[str, str]:
    if not given:
        return {}
    from worker.operations.files import parse_fields

    try:
        return parse_fields(given)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", ctx, option) from error


def fields_option(command: F) -> F:
    """The `--fields` option, handed to the command as a mapping from fields to columns."""
    return click.option(
        "--fields",
        multiple=True,
        callback=_parsed,
        metavar="FIELD=COLUMN,...",
        help="Which columns of a CSV or TSV (members of bare reviews in JSON) stand for which fields: "
        "entity_id=asin,review_id=id,text=body; also rating, language, occurred_at.",
    )(command)
