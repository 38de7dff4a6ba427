"""A short run of the fuzzer, always the same, and that it finds, shrinks and keeps what it is there
for.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run as module
from tests.fuzz.run import MAX_SECONDS, again, broken, fuzz, rounds
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_the_examples_are_valid_and_keep_the_law(name: str) -> None:
    for example in TARGETS[name].corpus:
        assert broken(TARGETS[name].law, example) is None


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    for number, (_, failures) in enumerate(rounds(seed=1, per_target=150, folder=tmp_path)):
        assert not failures, "\n".join(map(str, failures))
        if number == 1:
            break


def test_a_failure_is_shrunk_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def law(data: bytes) -> None:
        if b"\xff" in data:
            raise IndexError("an exception nobody declared")

    monkeypatch.setattr(module, "TARGETS", {"weak": Target((b"some example",), law)})
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module.rounds, "__defaults__", (tmp_path,))
    printed: list[str] = []
    assert fuzz(seconds=0.5, seed=1, tell=printed.append) == 1
    (saved,) = (tmp_path / "weak").iterdir()
    assert saved.read_bytes() == b"\xff"
    assert "IndexError: an exception nobody declared" in printed[0]
    assert str(saved) in printed[0]
    assert "IndexError" in (again(saved) or "")
    assert "1 failures" in printed[-1]


def test_what_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, MAX_SECONDS + 1])
    monkeypatch.setattr(module.time, "process_time", lambda: next(clock))
    assert broken(lambda data: None, b"") == "took 3.0 s"
