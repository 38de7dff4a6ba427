"""`completion`: what makes a shell complete our commands, and the answers to it.

The script asks the program itself at each press of the key, through an environment variable: so
what is completed is what this version has. Nothing heavy is imported for an answer.
"""

import os

import click

from worker.cli.command import Command
from worker.cli.output import PROGRAM

VARIABLE = "_COVERSUMM_WORKER_COMPLETE"
"""In which a shell asks: `bash_complete`; or is told how to: `bash_source`."""
SHELLS = ("bash", "zsh", "fish")
BASH_FILE = "~/.local/share/bash-completion/completions/coversumm-worker"


@click.command(
    "completion",
    cls=Command,
    short_help="Completion of commands and options for your shell.",
    examples=[
        (
            'eval "$(coversumm-worker completion bash)"',
            "in this shell, or with the line in ~/.bashrc in every new one",
        ),
        (
            'eval "$(coversumm-worker completion zsh)"',
            "the same for zsh: in ~/.zshrc, after compinit",
        ),
        (
            f"coversumm-worker completion bash > {BASH_FILE}",
            "in every new bash, loaded when it is first needed",
        ),
        (
            "coversumm-worker completion fish > ~/.config/fish/completions/coversumm-worker.fish",
            "in every new fish",
        ),
    ],
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Write the script that makes SHELL (bash, zsh or fish) complete commands, options, their
    choices and file names.

    bash from 4.4 on. The `coversumm-worker` that answers is the one on the PATH.
    """
    click.echo(_answer(context.find_root().command, f"{shell}_source"), nl=False)


def asked() -> bool:
    """Whether a shell asks, and no command is meant."""
    return VARIABLE in os.environ


def answer(cli: click.Command) -> int:
    """Answer the shell on standard output; the exit code. Nothing may disturb the line that is
    being typed.
    """
    try:
        click.echo(_answer(cli, os.environ[VARIABLE]), nl=False)
    except Exception:
        return 1
    return 0


def _answer(cli: click.Command, instruction: str) -> str:
    """What the instruction asks for. Raises KeyError for a shell or a question that
    there is not.
    """
    from click.shell_completion import get_completion_class

    shell, _, question = instruction.partition("_")
    complete = get_completion_class(shell)
    if complete is None or question not in ("source", "complete"):
        raise KeyError(instruction)
    asked = complete(cli, {}, PROGRAM, VARIABLE)
    return (asked.source() if question == "source" else asked.complete()) + "\n"
