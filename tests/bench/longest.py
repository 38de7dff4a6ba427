"""The longest event of the core in native code: `python -m tests.bench.longest [SIZE ...]`.

Each stream runs three times, event by event, with and without deletions. An event's time is the
least of the three by the clock, so that the machine's other work counts little.
"""

import gc
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from tests.bench import streams
from tests.bench.core import K
from tests.bench.judge import added, removed
from worker.coversumm import Step, quantize
from worker.processing.native import native_module

DIMENSION = 384


def turning(n: int) -> NDArray[np.int16]:
    """Unit vectors whose mean turns by three radians."""
    angle = np.linspace(0, 3, n)[:, None]
    middle = np.cos(angle) * np.eye(DIMENSION)[0] + np.sin(angle) * np.eye(DIMENSION)[1]
    v = middle + np.random.default_rng(11).normal(size=(n, DIMENSION)) / np.sqrt(DIMENSION)
    return quantize(v)


STREAMS: dict[str, Callable[[int], NDArray[np.int16]]] = {
    "clusters": lambda n: streams.clusters(n, DIMENSION).vectors,
    "uniform": lambda n: streams.uniform_blocks(n, DIMENSION),
    "drifting": lambda n: streams.drifting(n, DIMENSION).vectors,
    "turning": turning,
}


def steps_of(vectors: NDArray[np.int16], deletions: float) -> list[Step]:
    """All vectors come, one an event; after each, with this chance, a random one goes."""
    rng, live, steps = np.random.default_rng(7), [], []
    for row, step in enumerate(added(vectors)):
        live.append(row)
        steps.append(step)
        if rng.random() < deletions:
            at = int(rng.integers(len(live)))
            live[at], live[-1] = live[-1], live[at]
            steps += removed(vectors, [live.pop()])
    return steps


def run(steps: list[Step]) -> tuple[NDArray[np.int64], int]:
    """Nanoseconds of each event, and the searches of all."""
    core = native_module().Core(K, DIMENSION)
    times = np.empty(len(steps), np.int64)
    for at, step in enumerate(steps):
        begun = time.perf_counter_ns()
        core.apply([step])
        times[at] = time.perf_counter_ns() - begun
    return times, core.searches


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [4000, 27_000, 32_768]
    table = Table("stream", title=f"k={K}, {DIMENSION} numbers a vector")
    for column in ("sentences", "deletions", "longest us", "10th us", "mean us", "searches"):
        table.add_column(column, justify="right")
    gc.disable()
    for size in sizes:
        for name, make in STREAMS.items():
            for deletions in (0.0, 0.3):
                steps = steps_of(make(size), deletions)
                runs = [run(steps) for _ in range(3)]
                times = np.sort(np.min([times for times, _ in runs], axis=0))[::-1] / 1000
                figures = [f"{number:.1f}" for number in (times[0], times[9], times.mean())]
                table.add_row(name, f"{size:,}", f"{deletions:.0%}", *figures, str(runs[0][1]))
    Console().print(table)


if __name__ == "__main__":
    main()
