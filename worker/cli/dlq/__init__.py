"""`dlq`: dead letters listed, looked at, and sent again after a fix."""

import click

from worker.cli.command import Group
from worker.cli.dlq.listing import list_letters
from worker.cli.dlq.sending import send
from worker.cli.dlq.showing import show


@click.group(
    "dlq",
    cls=Group,
    short_help="Dead letters: list them, look at them, send them again.",
    examples=[
        ("coversumm-worker dlq list", "what was refused, and why"),
        ("coversumm-worker dlq send --reason text_too_long --dry-run", "what would be sent after a fix"),
    ],
)
def command() -> None:
    """Dead letters: list them, look at them, and send them again after a fix."""


for subcommand in (list_letters, show, send):
    command.add_command(subcommand)
