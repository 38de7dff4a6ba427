"""A long run under random faults: two workers, kills, bursts, pauses and stops by seed; then the
verifier counts every message.

    python -m tests.harness.soak --events 60000 --faults 12 --seed 1 [--data FILE] [--vectors
        hashed|engine|text]

One seed is one load and one list of faults; the moments differ with the machine. The result goes to
`tests/bench/results/soak.json`; the exit code is 1 when an invariant does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench.machine import command_line
from tests.harness.broker import KafkaBroker
from tests.harness.chaos import random_faults
from tests.harness.load import CODECS, SAMPLE, read_reviews, rounds
from tests.harness.record import Recorder
from tests.harness.scenario import settings_for, under_faults, vectors_for
from tests.harness.workers import pipeline

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "soak.json"
WORKERS = 2


def soak(broker: KafkaBroker, folder: Path, recorder: Recorder, given: argparse.Namespace) -> None:
    """Run the load under its faults; AssertionError when it ends wrong."""
    reviews = read_reviews(given.data, limit=given.reviews, seed=given.seed)
    vectors = vectors_for(given.vectors, reviews)
    faults = random_faults(given.faults, WORKERS, given.seed)
    with (
        recorder.row(f"soak, seed {given.seed}") as row,
        pipeline(
            broker, f"soak-{given.seed}", folder, partitions=8, settings=settings_for(vectors)
        ) as site,
    ):
        chaos = under_faults(
            site,
            row,
            rounds(reviews, vectors, seed=given.seed),
            given.events,
            faults,
            workers=WORKERS,
            rate=given.rate,
            codecs=CODECS,
        )
    print("\n".join(chaos.history))


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=400.0, help="events a second")
    parser.add_argument("--data", type=Path, default=SAMPLE)
    parser.add_argument(
        "--reviews", type=int, default=None, help="use so many of the file's reviews"
    )
    parser.add_argument("--vectors", choices=("hashed", "engine", "text"), default="hashed")
    given = parser.parse_args()
    recorder = Recorder()
    fault = None
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as broker:
        try:
            soak(broker, Path(scratch), recorder, given)
        except AssertionError as found:
            fault = found
    recorder.write(given.out, " ".join(["python", "-m", "tests.harness.soak", *sys.argv[1:]]))
    print(recorder.rows[0])
    if fault is not None:
        print(fault, file=sys.stderr)
    return 1 if fault is not None else 0


if __name__ == "__main__":
    sys.exit(main())
