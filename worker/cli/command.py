"""Click commands with examples in their help, groups with sections, and suggestions of names."""

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from worker.cli.output import PROGRAM

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
