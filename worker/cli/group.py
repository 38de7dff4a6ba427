"""All commands and their exit codes; help with examples and sections, suggestions of names.

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
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from worker import __version__
from worker.errors import INTERRUPTED, CoversummError, Crash, FileErrors, SetupError
from worker.settings import unknown_settings
from worker.settings.environment import environment_file
from worker.view import output
from worker.view.output import PROGRAM

Example = tuple[str, str]  # a command line, which may lack the program's name, and its effect


class Command(click.Command):
    """A command with examples, which its help shows unwrapped at the end."""

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = [
            (line if PROGRAM in line else f"{PROGRAM} {line}", does) for line, does in examples
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`; errors of the parser name this command too."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            for line, does in self.examples:
                formatter.write_text(f"# {does}")
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def new_command(
    name: str, *examples: Example, **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a command of a function."""
    return click.command(name, cls=Command, examples=examples, **attributes)


class CommandGroup(Command, click.Group):
    """A group that lists its commands in the order they were added."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def sections(self) -> Mapping[str, Mapping[str, str]]:
        """The one-line help of each command, by the title of its section and by its name."""
        helps = {name: command.short_help or "" for name, command in self.commands.items()}
        return {"Commands": helps}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, helps in self.sections().items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in helps.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group`; suggests a name for one that does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            own = {name: name for name in self.commands}
            if meant := nearest(args[0], own) or nearest(args[0], self._nested()):
                error.message += f" Did you mean {meant!r}?"
            raise

    def _nested(self) -> dict[str, str]:
        """The names in groups of this group, by the word to search for: `list` is `dlq list`."""
        return {
            name: f"{group} {name}"
            for group, command in self.commands.items()
            if isinstance(command, CommandGroup)
            for name in command.commands
        }


class LazyGroup(CommandGroup):
    """A group whose commands are modules of a package, imported when a command is looked up.

    So help and completion are fast, and a module of a command may import what it needs.
    """

    def __init__(
        self, *args: Any, package: str, sections: Mapping[str, Mapping[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._helps = {name: line for lines in sections.values() for name, line in lines.items()}
        self.commands = _Modules(package, self._helps)

    def sections(self) -> Mapping[str, Mapping[str, str]]:
        return self._sections

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [name for name in self._helps if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=self._helps[name]) for name in found]
        return commands + Command.shell_complete(self, ctx, incomplete)


class _Modules(UserDict[str, Any]):
    """The `command` of each module, by the module's name."""

    def __init__(self, package: str, names: Iterable[str]) -> None:
        self._package = package
        super().__init__(dict.fromkeys(names))

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is None:
            self.data[name] = import_module(f"{self._package}.{name}").command
        command: click.Command = self.data[name]
        return command


def nearest(word: str, names: dict[str, str]) -> str | None:
    """The entry of `names` for the word, its only completion, or the most similar word; or None."""
    completed = [name for name in names if name.startswith(word)]
    found = [word] if word in names else completed if len(completed) == 1 else []
    found = found or get_close_matches(word, names, n=1)
    return names[found[0]] if found else None


SECTIONS = {
    "To try it": {
        "demo": "Real reviews through the real worker, in a minute; needs nothing.",
        "serve": "Reviews of a file on the live page, until Ctrl-C; no Kafka.",
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
        "ask": "What an entity's reviews answer to a question.",
        "trend": "How often facets are mentioned over time; where complaints rose.",
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
        ("serve reviews.jsonl", "your own file on a page"),
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
    """True if Ctrl-C caused it, as in an import of a native module, which raises its own error."""
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
