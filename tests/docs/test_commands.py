"""Every command line that is named anywhere exists, options included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.build.render import ROOT
from tests.docs.commands import LINE, faults

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        *(path for path in (ROOT / "deploy").rglob("*") if path.is_file()),
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


def test_command_lines_are_found_where_they_are() -> None:
    named = [text for path in SOURCES for text in strings(path) if LINE.search(text)]
    assert len(named) > 10
    assert sum(len(LINE.findall(path.read_text(encoding="utf-8"))) for path in DOCUMENTS) > 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("run `coversumm-worker rewind`.", "cli has no command rewind"),
        ("run `coversumm-worker\n    rewind`.", "has no command rewind"),
        ("    coversumm-worker dlq sent --dry-run  # all", "dlq has no command sent"),
        ("`coversumm-worker dlq send 3:991 --reasons X`", "send has no option --reasons"),
        ("`coversumm-worker --loud`", "cli has no option --loud"),
        ("a damaged copy: `reset --everything`", "reset has no option --everything"),
        ("coversumm-worker topics --partition=8", "topics has no option --partition"),
        ("pip install 'coversumm-worker[otel]'", "no package index has coversumm-worker"),
        ("`pip install '.[parket]'`", "the package has no extra parket"),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, fault: str) -> None:
    (found,) = faults(text)
    assert found.endswith(fault)


@pytest.mark.parametrize(
    "text",
    [
        "# coversumm-worker\n\nA worker",
        "coversumm-worker: error: it failed",
        "`coversumm-worker dlq send 3:991 --reason X --dry-run`, `inspect E --history 10`, "
        "`summarize - --no-distinct`",
        "  coversumm-worker send FILE     produce reviews --quickly",
        "`reset`, then `run --help`",
        "`python -m pip install --quiet '.[otel]'`",
    ],
)
def test_others_are_not(text: str) -> None:
    assert list(faults(text)) == []
