"""docs/algorithm.md names files, functions and tests: each exists, every lemma has both, and the
code names existing lemmas.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOC = ROOT / "docs" / "algorithm.md"
TEXT = DOC.read_text()
LINKS = re.findall(r"\[`([\w.]+)`\]\(\.\./([^)]+)\)", TEXT)
PLAIN_LINKS = re.findall(r"\]\(([^)]+)\)", TEXT)
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", TEXT, flags=re.M)[1:]}
LEMMAS = {int(title.split()[1].rstrip(":")) for title in SECTIONS if title.startswith("Lemma")}


def names_in(tree: ast.Module) -> set[str]:
    """Functions, classes and constants of a module, and `Class.name` for methods, fields and
    attributes.
    """
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef):
                    names.add(f"{node.name}.{inner.name}")
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    names.add(f"{node.name}.{inner.target.id}")
    return names


def anchor(title: str) -> str:
    """The one that GitHub makes of a title."""
    return "#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_what_it_names_exists() -> None:
    assert LINKS
    for name, path in LINKS:
        assert name in names_in(ast.parse((ROOT / path).read_text())), (name, path)


def test_every_link_leads_somewhere() -> None:
    anchors = {anchor(title) for title in re.findall(r"^#+ (.*)", TEXT, flags=re.M)}
    for link in PLAIN_LINKS:
        assert link in anchors if link.startswith("#") else (DOC.parent / link).exists(), link


@pytest.mark.parametrize(
    "title", [title for title in SECTIONS if title.startswith(("Theorem", "Lemma"))]
)
def test_each_statement_has_a_proof_code_and_a_test(title: str) -> None:
    section = SECTIONS[title]
    assert "**Proof.**" in section
    assert "∎" in section
    paths = [path for _, path in re.findall(r"\[`([\w.]+)`\]\(\.\./([^)]+)\)", section)]
    assert any(path.startswith("worker/coversumm/") for path in paths)
    assert any(path.startswith("tests/coversumm/") for path in paths)


def test_the_code_names_existing_lemmas() -> None:
    named = {
        int(number)
        for path in (ROOT / "worker" / "coversumm").rglob("*.py")
        for number in re.findall(r"Lemmas? (\d+)", path.read_text())
    }
    assert named
    assert named <= LEMMAS
