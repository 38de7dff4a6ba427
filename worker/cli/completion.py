"""`completion`: the script that completes commands in a shell, and the answers to that shell.

The script runs the program at each Tab and asks through an environment variable, so it completes
what the installed version has. An answer imports nothing heavy.
"""

import os

import click
from click.shell_completion import shell_complete

from worker.cli.command import Command
from worker.cli.output import PROGRAM

VARIABLE = "_COVERSUMM_WORKER_COMPLETE"
"""A shell sets it to `bash_complete` to ask for completions, to `bash_source` for the script."""
SHELLS = ("bash", "zsh", "fish")
BASH_FILE = "~/.local/share/bash-completion/completions/coversumm-worker"
FISH_FILE = "~/.config/fish/completions/coversumm-worker.fish"


@click.command(
    "completion",
    cls=Command,
    short_help="Complete commands and options in your shell.",
    examples=[
        ('eval "$(coversumm-worker completion bash)"', "in this bash; in ~/.bashrc for every bash"),
        ('eval "$(coversumm-worker completion zsh)"', "in ~/.zshrc, after compinit"),
        (f"coversumm-worker completion bash > {BASH_FILE}", "in every new bash, loaded on demand"),
        (f"coversumm-worker completion fish > {FISH_FILE}", "in every new fish"),
    ],
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def command(context: click.Context, shell: str) -> int:
    """Print the script that makes SHELL (bash 4.4 or newer, zsh or fish) complete commands,
    options, choices and file names.

    The first `coversumm-worker` on the PATH answers.
    """
    return shell_complete(context.find_root().command, {}, PROGRAM, VARIABLE, f"{shell}_source")


def is_requested() -> bool:
    """Whether a shell asks for completions instead of running a command."""
    return VARIABLE in os.environ


def answer(cli: click.Command) -> int:
    """Answer the shell on standard output and return the exit code; any error is silent, because
    the user is typing a command line.
    """
    try:
        return shell_complete(cli, {}, PROGRAM, VARIABLE, os.environ[VARIABLE])
    except Exception:
        return 1
