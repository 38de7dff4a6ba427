"""Help: of each command with examples that work, of a bare call, and the name that was meant."""

import re
import shlex

import click
import pytest

from worker.cli.group import Command, cli
from worker.view.output import PROGRAM


def commands(names=(), command=cli):
    """The words that name each command, groups among them, and the command."""
    yield names, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands((*names, name), sub)


COMMANDS = list(commands())
NAMED = [pytest.param(names, command, id=" ".join(names) or "root") for names, command in COMMANDS]


def called(line):
    """The arguments of our program in a line for a shell; what it is piped to, or where, is not
    among them.
    """
    calls = re.findall(rf'(?<![/\w]){PROGRAM}(?: ([^|>)"]*))?', line)
    return [shlex.split(arguments) for arguments in calls]


def parsed(arguments):
    """The words of the command that the arguments name; raises what click raises where they are
    wrong.
    """
    context, words = cli.make_context(PROGRAM, list(arguments)), []
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(
            context, context._protected_args + context.args
        )
        words.append(name)
        context = command.make_context(name, rest, parent=context)
    return tuple(words)


@pytest.mark.parametrize("names", [(), ("demo",), ("dlq",), ("dlq", "send")])
def test_help_has_an_alias(run, names):
    asked, wanted = run("help", *names), run(*names, "--help")
    assert (asked.code, asked.err) == (0, "")
    assert asked.out == wanted.out
    assert "Usage: coversumm-worker" in asked.out


@pytest.mark.parametrize(("names", "command"), NAMED)
def test_each_has_examples_that_work(names, command, monkeypatch):
    """They parse, options and choices included, and are about the command."""
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _param, _context: value)
    assert isinstance(command, Command)
    assert command.examples
    for line, does in command.examples:
        (arguments,) = called(line)
        assert parsed(arguments)[: len(names)] == names
        assert does
        assert not does.endswith(".")


@pytest.mark.parametrize("names", [(), ("dlq",)])
def test_a_bare_call_is_answered_with_the_help(run, names):
    """On standard error and with exit code 2: a script whose variable was empty must not take it as
    done.
    """
    ended = run(*names)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == run(*names, "--help").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sumarize", "f"],
         "No such command 'sumarize'. Did you mean 'summarize'? See `coversumm-worker --help`."),
        (["list"], "No such command 'list'. Did you mean 'dlq list'?"),
        (["insp"], "No such command 'insp'. Did you mean 'inspect'?"),
        (["dlq", "lst"],
         "No such command 'lst'. Did you mean 'list'? See `coversumm-worker dlq --help`."),
        (["xyzzy"], "No such command 'xyzzy'. See `coversumm-worker --help`."),
        (["dlq", "list", "--limt", "3"],
         "No such option '--limt'. Did you mean '--limit'? See `coversumm-worker dlq list"),
        (["--verson"], "No such option '--verson'. Did you mean '--version'?"),
        (
            ["history", "x", "--from"],
            "Option '--from' requires an argument. See `coversumm-worker history --help`.",
        ),
        (["verify", "--xyzzy"], "No such option '--xyzzy'. See `coversumm-worker verify --help`."),
    ],
)  # fmt: skip
def test_what_was_meant(run, arguments, message):
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"coversumm-worker: error: {message}")
    assert ended.err.count("\n") == 1
