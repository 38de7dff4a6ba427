"""The examples in the core's docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import worker.coversumm as package

MODULES = [
    package.__name__,
    *(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
]
PUBLIC = ("CoverSumm", "FlatIndex", "Points", "Ranking", "Step", "brute_force", "quantize")


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    module = importlib.import_module(name)
    names = {**vars(package), **vars(module), "np": np}
    assert doctest.testmod(module, globs=names).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_what_a_caller_needs_has_an_example(name: str) -> None:
    assert ">>>" in (getattr(package, name).__doc__ or "")
