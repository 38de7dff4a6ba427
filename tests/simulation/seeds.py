"""Many seeds at once, in processes of their own."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

CHUNK = 25
WORST = "rounds to catch up"
"""Not a count: the most that any seed took."""


def run_chunk(first: int, count: int, replay: bool) -> tuple[list[int], Counter[str], int]:
    """Simulate some seeds: those that fail, what happened in all, and how many there were."""
    from tests.simulation.run import run_seed

    gc.disable()  # next to no cycles come of a seed; they are collected once a chunk
    failed, total = [], Counter[str]()
    for seed in range(first, first + count):
        verdict = run_seed(seed, replay=replay)
        if verdict.violation is not None:
            failed.append(seed)
        add(total, verdict.seen)
    gc.collect()
    return failed, total, count


def add(total: Counter[str], seen: Counter[str]) -> None:
    """Add what happened to what has happened."""
    worst = max(total[WORST], seen[WORST])
    total.update(seen)
    total[WORST] = worst


def run_seeds(
    first: int, count: int, processes: int, on_done: Callable[[int], None], *, replay: bool = False
) -> tuple[list[int], Counter[str]]:
    """Simulate seeds, as replays perhaps: those that fail, and what happened in all; stops early
    when some have failed.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it; their matrices are tiny
    failed: list[int] = []
    total: Counter[str] = Counter()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for some, seen, done in _results(pool, first, count, replay):
            failed += some
            add(total, seen)
            on_done(done)
            if failed:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    return sorted(failed), total


def _results(
    pool: ProcessPoolExecutor, first: int, count: int, replay: bool
) -> Iterator[tuple[list[int], Counter[str], int]]:
    starts = range(first, first + count, CHUNK)
    jobs = [
        pool.submit(run_chunk, start, min(CHUNK, first + count - start), replay) for start in starts
    ]
    for job in as_completed(jobs):
        yield job.result()
