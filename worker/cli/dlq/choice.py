"""Which dead letters a command is about: by place, reason, key or time."""

import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from worker.cli.times import TimeType

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.operations.dead_letters import Selection

F = TypeVar("F", bound="Callable[..., Any]")


class PlaceType(click.ParamType):
    """`PARTITION:OFFSET` of the dead letter topic."""

    name = "PARTITION:OFFSET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """See `click.ParamType`."""
        match = re.fullmatch("([0-9]{1,10}):([0-9]{1,19})", str(value))
        if match is None:
            self.fail(f"{value!r} is not PARTITION:OFFSET like 3:991.", param, ctx)
        return int(match[1]), int(match[2])


def _reasons(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from worker.events.reasons import Reason

    return [reason.value for reason in Reason if reason.value.startswith(incomplete)]


def selection_options(command: F) -> F:
    """What `list` and `send` choose letters by."""
    for option in (
        click.option("--entity", metavar="ID", help="Only those with this key."),
        click.option("--since", type=TimeType(), help="Only those written at or after it."),
        click.option(
            "--reason",
            "reasons",
            multiple=True,
            metavar="CODE",
            shell_complete=_reasons,
            help="Only those of this reason; repeat it.",
        ),
    ):
        command = option(command)
    return command


def selection_of(
    reasons: tuple[str, ...],
    since_ms: int | None,
    entity_id: str | None,
    places: tuple[tuple[int, int], ...] = (),
) -> "Selection":
    """The letters that the options choose; click.UsageError for a reason that does not exist."""
    from worker.events import Reason
    from worker.operations.dead_letters import Place, Selection

    known = {reason.value for reason in Reason}
    if unknown := sorted(set(reasons) - known):
        raise click.UsageError(f"--reason {unknown[0]!r} is none of {', '.join(sorted(known))}.")
    return Selection(frozenset(reasons), since_ms, entity_id, frozenset(Place(*place) for place in places))
