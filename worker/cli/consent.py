"""The question before something is thrown away or sent: asked at a terminal, answered by --yes everywhere else."""

import sys

import click

from worker.cli import output
from worker.errors import SurroundingsError

NOTHING = "nothing changed"
DECLINED = 1
"""The exit code after `n`, so that a script goes on (`reset && run`) only where it was done."""


def check_can_ask(yes: bool, dry_run: bool) -> None:
    """Raise SurroundingsError where there would have to be a question and nobody is there to answer it."""
    if not (yes or dry_run or _has_terminal()):
        raise SurroundingsError(
            "standard input is no terminal, so nobody can be asked: pass --yes to do it, or --dry-run to see what would be done"
        )


def agreed(question: str, yes: bool) -> bool:
    """Whether it is to be done; says so where it is not. Ctrl-C and the end of the input are raised as click.Abort."""
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
