"""Click commands with examples in their help, groups with sections, and suggestions of names."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import click

Example = tuple[str, str]
"""A command line, and its effect."""


class Command(click.Command):
    """A command with examples, which its help shows unwrapped at the end."""

    def __init__(self, *args: Any, examples: Sequence[Example] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`; errors of the parser name this command too."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command`."""
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            for line, does in self.examples:
                formatter.write_text(f"# {does}")
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class CommandGroup(Command, click.Group):
    """A group that lists its commands in the order they were added, by section."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._sections: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    def add_command(
        self, cmd: click.Command, name: str | None = None, section: str = "Commands"
    ) -> None:
        """See `click.Group`; `section` is a title."""
        super().add_command(cmd, name)
        self._sections[name or cmd.name or ""] = section

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See `click.Group`."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`."""
        width = max(map(len, self.commands))
        room = formatter.width - formatter.indent_increment - width - 2
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            line = (name.ljust(width), command.get_short_help_str(room))
            sections.setdefault(self._sections.get(name, "Commands"), []).append(line)
        for title, lines in sections.items():
            with formatter.section(title):
                formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group`; suggests a name for one that does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            if meant := nearest(args[0], dict(self._names())):
                error.message += f" Did you mean {meant!r}?"
            raise

    def _names(self) -> Iterator[tuple[str, str]]:
        """Command names by the word to search for: `list` is `dlq list`; own names win."""
        for name, command in self.commands.items():
            if isinstance(command, CommandGroup):
                yield from ((word, f"{name} {path}") for word, path in command._names())
        yield from zip(self.commands, self.commands, strict=True)


def nearest(word: str, names: dict[str, str]) -> str | None:
    """The entry of `names` for the word, its only completion, or the most similar word; or None."""
    completed = [name for name in names if name.startswith(word)]
    found = [word] if word in names else completed if len(completed) == 1 else []
    found = found or get_close_matches(word, names, n=1)
    return names[found[0]] if found else None
