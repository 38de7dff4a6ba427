"""All commands, and their exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed, or the answer to a question was no |
| 2 | usage, settings or environment: one line says what to do |
| 3 | crashed: restart it |
| 4 | fenced: another worker has this instance id |
| 130 | interrupted |
"""

import os
import sys
import traceback
from collections.abc import Sequence

import click
from click.shell_completion import shell_complete

from worker import __version__
from worker.cli import (
    bridge,
    compare,
    config,
    demo,
    dlq,
    embed,
    entities,
    history,
    inspect,
    mapping,
    output,
    promote,
    replay,
    reset,
    run,
    schemas,
    send,
    status,
    summarize,
    topics,
    vectors,
    verify,
    watch,
)
from worker.cli.command import Command, CommandGroup
from worker.errors import INTERRUPTED, CoversummError, Crash, FileErrors, SetupError
from worker.settings import environment_file, unknown_settings

SECTIONS = {
    "To try it": (demo, summarize),
    "To run it": (config, mapping, topics, schemas, run, bridge, send),
    "To rebuild": (replay, compare, promote, embed, vectors),
    "To look at it": (status, entities, watch, inspect, history, verify),
    "When something went wrong": (dlq, reset),
}
"""The commands in the order of use. Those about the command line itself follow."""
COMPLETE = "_COVERSUMM_WORKER_COMPLETE"
"""Set by a shell: `bash_complete` for completions, `bash_source` for the script."""
SHELLS = ("bash", "zsh", "fish")
BASH_FILE = "~/.local/share/bash-completion/completions/coversumm-worker"
FISH_FILE = "~/.config/fish/completions/coversumm-worker.fish"


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[
        ("coversumm-worker demo", "see it work: no Kafka, a minute"),
        ("coversumm-worker summarize reviews.jsonl", "summaries of your own file"),
        ("KAFKA_BOOTSTRAP_SERVERS=localhost:9092 coversumm-worker run", "the worker on a Kafka"),
    ],
)
@click.version_option(__version__, prog_name=output.PROGRAM)
@click.option(
    "--env-file",
    metavar="FILE",
    type=click.Path(),
    help="A file of environment variables, NAME=VALUE a line; set variables take precedence.",
)
@click.pass_context
def cli(context: click.Context, env_file: str | None) -> None:
    """The exact extractive summary of every entity's reviews, kept current on Kafka, exactly once.

    Settings are environment variables (KAFKA_BOOTSTRAP_SERVERS, COVERSUMM_...):
    docs/reference/settings.md lists them.
    """
    if env_file is not None:
        context.with_resource(environment_file(env_file))
    if context.invoked_subcommand != run.command.name and (unknown := unknown_settings()):
        output.note(f"warning: {unknown}")  # `run` logs it


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
def help_(context: click.Context, names: tuple[str, ...]) -> None:
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
def completion(context: click.Context, shell: str) -> int:
    """Print the script that makes SHELL (bash 4.4 or newer, zsh or fish) complete commands,
    options, choices and file names.

    The first `coversumm-worker` on the PATH answers.
    """
    # The script runs the program at each Tab, so that it completes what the installed version has.
    return shell_complete(
        context.find_root().command, {}, output.PROGRAM, COMPLETE, f"{shell}_source"
    )


for section, modules in SECTIONS.items():
    for module in modules:
        cli.add_command(module.command, section=section)
for command in (help_, completion):
    cli.add_command(command, section="Around it")


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run a command (by default `sys.argv`); return its exit code. Codes 2 to 4 write an error
    line.
    """
    if COMPLETE in os.environ:
        return _complete()
    try:
        result = _invoke(list(sys.argv[1:] if arguments is None else arguments))
        output.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the help
        output.note_lines(error.format_message())
        return SetupError.exit_code
    except click.UsageError as error:
        return _fail(_usage(error), SetupError.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), SetupError.exit_code)
    except FileErrors as error:
        for line in error.lines:
            output.complain(line)
        return error.exit_code
    except CoversummError as error:
        return _fail(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output is gone
        output.abandon()
        return 0
    except Exception as error:
        if _is_interrupt(error):
            return INTERRUPTED
        traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error}", Crash.exit_code)
    return result if isinstance(result, int) else 0


def _complete() -> int:
    """Answer the shell, and return the exit code. Errors are silent: the user is typing."""
    try:
        return shell_complete(cli, {}, output.PROGRAM, COMPLETE, os.environ[COMPLETE])
    except Exception:
        return 1


def _invoke(arguments: list[str]) -> object:
    """The command's result. `cli.main` has other exit codes for Ctrl-C and closed pipes."""
    try:
        with cli.make_context(output.PROGRAM, arguments) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C caused it: it may interrupt the import of a native module, which then raises
    its own error.
    """
    cause = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _is_interrupt(cause))


def _usage(error: click.UsageError) -> str:
    where = error.ctx.command_path if error.ctx is not None else output.PROGRAM
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        message = f"No such option {error.option_name!r}."
        if error.possibilities:
            message += f" Did you mean {' or '.join(map(repr, error.possibilities))}?"
    return f"{message} See `{where} --help`."


def _fail(message: str, code: int) -> int:
    output.complain(" ".join(message.split()))
    return code
