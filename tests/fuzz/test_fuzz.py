"""A short run of the fuzzer, always the same, and that it finds, shrinks and keeps what it is there
for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.run import broken, rounds
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_the_examples_are_valid_and_keep_the_law(name: str) -> None:
    for example in TARGETS[name].corpus:
        assert broken(TARGETS[name].law, example) is None


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    _, failures = next(rounds(seed=1, per_target=150, folder=tmp_path))
    assert not failures, "\n".join(map(str, failures))
