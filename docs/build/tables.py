"""The tables of the reference that are made from the code: settings, metrics, commands."""

from collections.abc import Iterable, Iterator

import click

from worker.cli.group import cli
from worker.settings import settings_by_field
from worker.telemetry.metrics import Metrics


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(header)
    lines = [f"| {' | '.join(cells)} |" for cells in (names, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(names), *lines[1:]])


def settings_table() -> str:
    """All settings, in the order of their fields."""
    rows = (
        (f"`{setting.variable}`", setting.default, setting.help)
        for setting in settings_by_field().values()
    )
    return markdown(("variable", "default", "meaning"), rows)


def metrics_table() -> str:
    """All metrics, in the order they are made."""
    rows = (
        (
            f"`{family.name}`",
            family.kind,
            ", ".join(f"`{label}`" for label in family.labels),
            family.help,
        )
        for family in Metrics().families
    )
    return markdown(("metric", "kind", "labels", "meaning"), rows)


def commands_table() -> str:
    """All commands, with their arguments and the first paragraph of their help."""
    rows = (
        (f"`{' '.join([*names, *_arguments(command)])}`", _first_paragraph(command))
        for names, command in leaves((), cli)
    )
    return markdown(("command", "does"), rows)


def leaves(
    names: tuple[str, ...], group: click.Group
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands with the words that name them; for a group, its commands."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves((*names, name), command)
        else:
            yield (*names, name), command


def _arguments(command: click.Command) -> list[str]:
    context = click.Context(command)
    return [
        str(param.make_metavar(context))
        for param in command.params
        if isinstance(param, click.Argument)
    ]


def _first_paragraph(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())
