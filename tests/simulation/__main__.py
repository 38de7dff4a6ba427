"""Simulate many seeds, or look at one.

    python -m tests.simulation --seeds 10000 [--first N] [--processes 2] [--record]
    python -m tests.simulation --seed 123
    python -m tests.simulation --replay ...           as replays: bounded runs, and an endless one
                                                      after them

Ends with 1 when a seed fails; it is shrunk then, and its smallest history printed.
"""

from __future__ import annotations

import datetime
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.bench.machine import command_line, machine
from tests.simulation.plan import POINTS
from tests.simulation.run import report, run_seed, smallest
from tests.simulation.seeds import WORST, run_seeds

RECORD = Path(__file__).resolve().parents[1] / "bench" / "results" / "simulation.json"


def show(seen: Counter[str], console: Console) -> None:
    """What happened: one table of the strikes by point, one of the rest."""
    kinds = [
        f"{kind} {when}"
        for kind in ("kill", "park", "freeze", "fail")
        for when in ("before", "after")
    ]
    strikes = Table("call of a client library", *kinds)
    for point in POINTS:
        strikes.add_row(point, *(f"{seen[f'{kind} {point}']:,}" for kind in kinds))
    rest = Table("besides", "times")
    shown = {f"{kind} {point}" for kind in kinds for point in POINTS}
    for name in sorted(seen.keys() - shown):
        rest.add_row(name if name != WORST else f"{name}, at most", f"{seen[name]:,}")
    console.print(strikes)
    console.print(rest)


def record(command: str, seeds: int, seconds: float, seen: Counter[str]) -> None:
    """Write the figures of a clean run beside those of the benchmarks."""
    body: dict[str, Any] = {
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command,
        "seeds": seeds,
        "failed": 0,
        "seconds": round(seconds, 1),
        "seeds_per_minute": round(seeds / seconds * 60),
        "seen": dict(sorted(seen.items())),
    }
    RECORD.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")


def look_at(seed: int, shrink_seconds: float, console: Console, *, replay: bool = False) -> int:
    """One seed: fine, or its smallest history."""
    verdict = run_seed(seed, replay=replay)
    if verdict.violation is None:
        console.print(f"seed {seed}: every invariant holds")
        return 0
    console.print(f"seed {seed} fails ({verdict.violation.invariant}); shrinking it ...")
    small = smallest(seed, shrink_seconds, replay=replay)
    console.print(report(seed, *small), markup=False, highlight=False)
    return 1


def main() -> int:
    """The command; its exit code."""
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--replay", action="store_true", help="each seed as a replay")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--shrink-seconds", type=float, default=60.0, help="for making a failure small (60)"
    )
    parser.add_argument(
        "--record", action="store_true", help=f"write {RECORD.name} when all is well"
    )
    given = parser.parse_args()
    console = Console()
    if given.seed is not None:
        return look_at(given.seed, given.shrink_seconds, console, replay=given.replay)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's `&` has it ignored
    started = time.monotonic()
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=given.seeds)
        failed, seen = run_seeds(
            given.first,
            given.seeds,
            given.processes,
            lambda done: progress.advance(bar, done),
            replay=given.replay,
        )
    seconds = time.monotonic() - started
    show(seen, console)
    if failed:
        console.print(f"{len(failed)} seeds failed before the run was ended: {failed}")
        return look_at(failed[0], given.shrink_seconds, console, replay=given.replay)
    console.print(
        f"{given.seeds:,} seeds, {seen['events']:,} events, {seconds:.0f} s, "
        f"{given.seeds / seconds * 60:,.0f} seeds a minute: "
        "every invariant holds"
    )
    if given.record and not given.replay:
        record(f"python -m tests.simulation {' '.join(sys.argv[1:])}", given.seeds, seconds, seen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
