"""`help`: what `--help` shows, by the names of commands."""

import click

from worker.cli.command import Command


@click.command(
    "help",
    cls=Command,
    short_help="Show the help of a command.",
    examples=[
        ("coversumm-worker help", "all commands"),
        ("coversumm-worker help dlq send", "the options and examples of one"),
    ],
)
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def command(context: click.Context, names: tuple[str, ...]) -> None:
    """Show what `--help` shows: of COMMAND, or the list of all commands."""
    shown = context.find_root()
    for at, name in enumerate(names):
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{' '.join(names[:at])!r} has no commands.")
        _, found, _ = group.resolve_command(shown, [name])
        assert found is not None  # `resolve_command` raises UsageError for an unknown name
        shown = click.Context(found, info_name=name, parent=shown)
    click.echo(shown.get_help())
