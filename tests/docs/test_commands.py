"""Every command line that is named anywhere exists, options included."""

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.build.render import ROOT
from tests.docs.commands import faults

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        *(p for p in (ROOT / "deploy").rglob("*") if p.is_file() and p.suffix != ".pyc"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)
SOURCES = sorted((ROOT / "worker").rglob("*.py"))


def strings(path: Path) -> Iterator[str]:
    """The strings of a module, docstrings included; what an f-string puts in is `X`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.value


def test_documents_name_commands_that_exist() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {fault}"
        for path in DOCUMENTS
        for fault in faults(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_messages_name_commands_that_exist() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {fault}"
        for path in SOURCES
        for text in strings(path)
        for fault in faults(text)
    }
    assert found == set()
