"""Runs of the fuzzer, in rounds: each round tries every target with inputs made from the run's
seed.
"""

from __future__ import annotations

import hashlib
import random
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, Law

FOLDER = Path(__file__).parents[2] / ".cache" / "fuzz"
MAX_SECONDS = 2.0
"""For one input of at most 16 KiB, a garbage collection or a busy machine included."""


class Failure(NamedTuple):
    """An input that breaks a target's law."""

    target: str
    data: bytes
    why: str
    path: Path

    @property
    def kind(self) -> tuple[str, ...]:
        """Equal for failures that are likely the same: by target and the place in the code where it
        was noticed.
        """
        places = [
            line.strip() for line in self.why.splitlines() if line.lstrip().startswith("File ")
        ]
        return self.target, *places[-1:]

    def __str__(self) -> str:
        shown = repr(self.data if len(self.data) <= 500 else self.data[:500] + b"...")
        again = f"python -m tests.fuzz --again {self.path}"
        return (
            f"{self.target}: {self.why}\n  input, {len(self.data)} bytes: {shown}\n  again: {again}"
        )


def broken(law: Law, data: bytes) -> str | None:
    """Why `data` breaks the law, None where it does not."""
    started = time.process_time()  # not the clock on the wall: others may have the processor
    try:
        law(data)
    except Exception:
        return traceback.format_exc()
    seconds = time.process_time() - started
    return f"took {seconds:.1f} s" if seconds > MAX_SECONDS else None


def smaller(law: Law, data: bytes) -> bytes:
    """`data` without what it can break the law without."""
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if broken(law, shorter) is not None:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def rounds(
    seed: int, per_target: int, folder: Path = FOLDER
) -> Iterator[tuple[int, list[Failure]]]:
    """After each round: how many inputs it tried, and the failures it found, each saved below
    `folder`.
    """
    number = 0
    while True:
        failures = []
        for name, target in TARGETS.items():
            rng = random.Random(f"{seed} {number} {name}")
            for _ in range(per_target):
                data = mutated(rng, target.corpus)
                if broken(target.law, data) is not None:
                    failures.append(_saved(name, smaller(target.law, data), folder))
                    break
        yield per_target * len(TARGETS), failures
        number += 1


def again(path: Path) -> str | None:
    """Try a saved input: why it breaks its target's law, None where it no longer does."""
    return broken(TARGETS[path.parent.name].law, path.read_bytes())


def _saved(name: str, data: bytes, folder: Path) -> Failure:
    path = folder / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Failure(name, data, broken(TARGETS[name].law, data) or "did not fail again", path)


def fuzz(seconds: float, seed: int, tell: Callable[[str], None]) -> int:
    """Fuzz for so long; how many different failures were found. `tell` gets each of them, and at
    the end what was done.
    """
    give_up = time.monotonic() + seconds
    tried, found = 0, set()
    for inputs, failures in rounds(seed, 100):
        tried += inputs
        for failure in failures:
            if failure.kind not in found:
                found.add(failure.kind)
                tell(str(failure))
        if time.monotonic() >= give_up:
            break
    tell(f"{tried:,} inputs to {len(TARGETS)} decoders by seed {seed}: {len(found)} failures")
    return len(found)
