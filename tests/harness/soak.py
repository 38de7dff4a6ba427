"""A long run under random faults: two workers, kills, bursts, pauses and stops by seed; then the
verifier counts every message.

    python -m tests.harness.soak --events 60000 --faults 12 --seed 1 [--data FILE] [--vectors
        hashed|engine|text]

One seed is one load and one list of faults; the moments differ with the machine. The result goes to
`tests/bench/results/soak.json`; the exit code is 1 when an invariant does not hold.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from tests.bench.machine import command_line
from tests.harness.broker import KafkaBroker
from tests.harness.faults import random_faults
from tests.harness.load import CODECS, SAMPLE, read_reviews, rounds, send
from tests.harness.record import RECORDS, Recorder
from tests.harness.scenario import settings_for, under_faults, vectors_for
from tests.harness.workers import pipeline

WORKERS = 2


def soak(broker: KafkaBroker, folder: Path, recorder: Recorder, given: Namespace) -> None:
    """Run the load under its faults; AssertionError when it ends wrong."""
    reviews = read_reviews(given.data, limit=given.reviews, seed=given.seed)
    vectors = vectors_for(given.vectors, reviews)
    settings, name = settings_for(vectors), f"soak-{given.seed}"
    with (
        recorder.row(f"soak, seed {given.seed}") as row,
        pipeline(broker, name, folder, partitions=8, settings=settings) as live,
    ):
        under_faults(
            live,
            row,
            rounds(reviews, vectors, seed=given.seed),
            given.events,
            random_faults(given.faults, WORKERS, given.seed),
            workers=WORKERS,
            rate=given.rate,
            how=send,
            chunk=50,
            codecs=CODECS,
        )


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RECORDS / "soak.json")
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
