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
from worker.cli import output
from worker.cli.command import LazyGroup
from worker.errors import INTERRUPTED, CoversummError, Crash, FileErrors, SetupError
from worker.settings import unknown_settings
from worker.settings.environment import environment_file

SECTIONS = {
    "To try it": {
        "demo": "Real reviews through the real worker, in a minute; needs nothing.",
        "summarize": "Files in, summary changes out; no Kafka.",
    },
    "To run it": {
        "config": "Show every setting, its value and origin.",
        "facets": "Suggest facets from reviews, as a file to edit.",
        "mapping": "Check how a topic of your own becomes events.",
        "topics": "Create or check the topics, input included.",
        "schemas": "Register the Avro schemas of summaries and facets.",
        "run": "Run the worker.",
        "bridge": "Write a topic of other keys as events keyed by entity.",
        "send": "Produce files of reviews or events to the input topic.",
    },
    "To rebuild": {
        "replay": "Build the summaries again from history, beside the live worker.",
        "compare": "Compare two output topics or files of summaries.",
        "promote": "Check whether consumers can switch to a new build.",
        "vectors": "Show the store of vectors by text.",
    },
    "To look at it": {
        "status": "Show the group's workers: partitions, lag, readiness.",
        "entities": "List and search the entities.",
        "watch": "Summary changes as they happen, of one entity or of all.",
        "inspect": "An entity's summary, reviews or history.",
        "history": "Show the changes of an entity's summary, or of its facets.",
        "verify": "Recompute a worker's summaries by brute force.",
    },
    "When something went wrong": {
        "dlq": "List, show and send dead letters.",
        "skip": "Pass over a record that ends every worker, with a dead letter.",
        "reset": "Throw away local state, offsets and changelog.",
    },
}
"""Each command, in the order of use, with the line that the list of all commands shows."""
COMPLETE = "_COVERSUMM_WORKER_COMPLETE"
"""Set by a shell: `bash_complete` for completions, `bash_source` for the script."""


@click.group(
    cls=LazyGroup,
    package=__package__,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[
        ("demo", "see it work: no Kafka, a minute"),
        ("summarize reviews.jsonl", "summaries of your own file"),
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
    if context.invoked_subcommand != "run" and (unknown := unknown_settings()):
        output.note(f"warning: {unknown}")  # `run` logs it


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run a command (by default `sys.argv`); the exit code. Codes 2 to 4 write an error line."""
    if COMPLETE in os.environ:
        try:
            return shell_complete(cli, {}, output.PROGRAM, COMPLETE, os.environ[COMPLETE])
        except Exception:  # errors are silent: the user is typing
            return 1
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        if given[:1] == ["help"]:
            given = [*given[1:], "--help"]
        result = _invoke(given)
        output.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the help
        click.echo(error.format_message().rstrip("\n"), err=True)
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


def _invoke(arguments: list[str]) -> object:
    """The command's result. `cli.main` has other exit codes for Ctrl-C and closed pipes."""
    try:
        with cli.make_context(output.PROGRAM, arguments) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C caused it, as in an import of a native module, which raises its own error."""
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
