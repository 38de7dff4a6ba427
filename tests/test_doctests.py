"""The examples in the docstrings of events and texts are true."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for room in ("events", "text")
    for path in sorted((ROOT / "worker" / room).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_what_a_caller_needs_has_an_example() -> None:
    assert {"worker.events.bare", "worker.events.decode", "worker.text.splitting"} <= set(MODULES)
