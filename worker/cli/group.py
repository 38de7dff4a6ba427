"""The commands together, and what every ending of one means: the exit codes.

| code | meaning |
|---|---|
| 0 | done |
| 1 | a check failed, or the answer to a question was no |
| 2 | usage, settings or surroundings: one line says what to do |
| 3 | crashed: restart it |
| 4 | fenced: another worker has this instance id |
| 130 | interrupted |
"""

import sys
import traceback
from collections.abc import Sequence

import click

from worker import __version__
from worker.cli import (
    INTERRUPTED,
    compare,
    completion,
    config,
    demo,
    dlq,
    entities,
    history,
    inspect,
    output,
    promote,
    replay,
    reset,
    run,
    send,
    status,
    summarize,
    topics,
    vectors,
    verify,
    watch,
)
from worker.cli.command import CommandGroup
from worker.errors import CoversummError, Crash, SetupError
from worker.settings import environment_file, unknown_settings

SECTIONS = {
    "To try it": (demo, summarize),
    "To run it": (config, topics, run, send),
    "To build anew": (replay, compare, promote, vectors),
    "To look at it": (status, entities, watch, inspect, history, verify),
    "When something went wrong": (dlq, reset),
    "Around it": (completion,),
}
"""The commands in the order of use."""


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[
        ("coversumm-worker demo", "see it work: no Kafka, a minute"),
        ("coversumm-worker summarize reviews.jsonl", "summaries of a file of yours"),
        ("KAFKA_BOOTSTRAP_SERVERS=localhost:9092 coversumm-worker run", "the worker on a Kafka"),
    ],
)
@click.version_option(__version__, prog_name=output.PROGRAM)
@click.option(
    "--env-file",
    metavar="FILE",
    type=click.Path(),
    help="Environment variables, NAME=VALUE a line; those that are set already win.",
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
        output.note(f"warning: {unknown}")  # `run` tells its log


for section, modules in SECTIONS.items():
    for module in modules:
        cli.add_command(module.command, section=section)


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run a command (of `sys.argv` by default); return its exit code, with one line on standard
    error where it is 2 to 4.
    """
    if completion.is_requested():
        return completion.answer(cli)
    try:
        result = _invoke(list(sys.argv[1:] if arguments is None else arguments))
        output.flush()
    except click.exceptions.NoArgsIsHelpError as nothing:  # its message is the whole help
        output.note_lines(nothing.format_message())
        return SetupError.exit_code  # nothing was asked for, so nothing was done
    except click.UsageError as error:
        return _fail(_usage(error), SetupError.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), SetupError.exit_code)
    except CoversummError as error:
        return _fail(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has enough of it
        output.abandon()
        return 0
    except Exception as error:
        if _is_interrupt(error):
            return INTERRUPTED
        traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error}", Crash.exit_code)
    return result if isinstance(result, int) else 0


def _invoke(arguments: list[str]) -> object:
    """The command's result. Not by `cli.main`, which has exit codes of its own for Ctrl-C and
    closed pipes.
    """
    try:
        with cli.make_context(output.PROGRAM, arguments) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is at the root of it: a native module that it meets while it is imported
    raises an error of its own.
    """
    cause = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _is_interrupt(cause))


def _usage(error: click.UsageError) -> str:
    """What is wrong with the command line, what was probably meant, and where to read on."""
    where = error.ctx.command_path if error.ctx is not None else output.PROGRAM
    told = error.format_message()
    if isinstance(error, click.NoSuchOption):
        meant = " or ".join(map(repr, error.possibilities or ()))
        told = f"No such option {error.option_name!r}." + (
            f" Did you mean {meant}?" if meant else ""
        )
    return f"{told} See `{where} --help`."


def _fail(message: str, code: int) -> int:
    output.complain(" ".join(message.split()))
    return code
