"""Builds the model's program, and has it accept runs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.model.traces import trace

CRATE = Path(__file__).parent
BUILT = CRATE.parents[1] / "build" / "model"
PROGRAM = BUILT / "release" / "commit-model"


def build() -> None:
    """Compile the program. Raises CalledProcessError, and FileNotFoundError without cargo."""
    command = ["cargo", "build", "--locked", "--release", "--quiet"]
    subprocess.run(command, cwd=CRATE, env={**os.environ, "CARGO_TARGET_DIR": BUILT}, check=True)


def accepted(runs: Iterable[list[str]]) -> tuple[bool, str]:
    """Whether the model accepts runs, each as the lines of `trace`; and what it says."""
    lines = "\n".join(line for run in runs for line in run)
    command = [PROGRAM, "traces"]
    done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True)
    return done.returncode == 0, done.stdout


def simulated(seeds: int) -> Iterable[list[str]]:
    """The runs of as many seeds, in two processes."""
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it; their matrices are tiny
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(trace, range(seeds), chunksize=25)
