"""`completion`: a script for a shell, and the answers to that script.

The script runs the program at each Tab, with an environment variable, so that it completes what the
installed version has. An answer imports nothing heavy.
"""

import os

import click
from click.shell_completion import shell_complete

from worker.cli.command import Command
from worker.cli.output import PROGRAM

VARIABLE = "_COVERSUMM_WORKER_COMPLETE"
"""Set by a shell: `bash_complete` for completions, `bash_source` for the script."""
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
    """Answer the shell, and return the exit code. Errors are silent: the user is typing."""
    try:
        return shell_complete(cli, {}, PROGRAM, VARIABLE, os.environ[VARIABLE])
    except Exception:
        return 1
