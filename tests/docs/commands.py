"""The command lines that a text names, held against the tree of commands, and against the package
where they install an extra of it.
"""

import re
import tomllib
from collections.abc import Iterator

import click

from docs.build.render import ROOT
from worker.cli.group import cli
from worker.view.output import PROGRAM

# The program and what follows it on its line; inside `code` on the next one too, where a paragraph
# was wrapped there.
LINE = re.compile(rf"(?:{PROGRAM} +|`{PROGRAM}\n *)(?=[a-z-])(?P<rest>[^`\n]*)")
# Of a document also code that begins with a command: `reset --local`.
SPAN = re.compile(rf"`(?P<rest>(?:{'|'.join(cli.commands)})\b[^`\n]*)`")


# A requirement with an extra, and the name before it.
EXTRA = re.compile(r"pip install(?: -\S+)* +'?(?P<name>[\w./-]+)\[(?P<extra>[\w-]+)\]")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def faults(text: str) -> Iterator[str]:
    """Each command line of the text that does not exist, with what is wrong about it."""
    for match in [*LINE.finditer(text), *SPAN.finditer(text)]:
        line = re.split(r"  +|#", match["rest"])[0]  # an explanation follows on the same line
        if fault := _fault(line.split()):
            yield f"{match.group()}: {fault}"
    for match in EXTRA.finditer(text):
        if match["name"] == PROGRAM:
            yield f"{match.group()}: no package index has {PROGRAM}"
        elif match["name"] == "." and match["extra"] not in EXTRAS:
            yield f"{match.group()}: the package has no extra {match['extra']}"


def _fault(words: list[str]) -> str | None:
    """What is wrong about `words`, a command line without the program."""
    command: click.Command = cli
    while (
        isinstance(command, click.Group)
        and words
        and re.fullmatch("[a-z][a-z-]*", words[0].strip(".,;:)"))
    ):
        name = words.pop(0).strip(".,;:)")
        if name not in command.commands:
            return f"{command.name} has no command {name}"
        command = command.commands[name]
    options = {
        option
        for parameter in command.params
        for option in parameter.opts + parameter.secondary_opts
    }
    for word in words:
        option = re.match("--[a-z-]+", word)
        if option and option.group() not in {*options, "--help"}:
            return f"{command.name} has no option {option.group()}"
    return None
