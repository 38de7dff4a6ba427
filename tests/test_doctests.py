"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

import worker.coversumm as core

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "worker").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
PUBLIC = (
    "CoverSumm",
    "EntityCore",
    "FlatIndex",
    "Points",
    "Ranking",
    "Step",
    "brute_force",
    "quantize",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    module = importlib.import_module(name)
    names = {**vars(core), **vars(module), "np": np}
    found = doctest.testmod(module, globs=names)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_what_a_caller_of_the_core_needs_has_an_example(name: str) -> None:
    assert ">>>" in (getattr(core, name).__doc__ or "")


def test_what_a_caller_needs_has_an_example() -> None:
    assert {"worker.events.bare", "worker.events.decode", "worker.text.splitting"} <= set(MODULES)
