"""Events a second of the worker beside peers, in turns on one Kafka that shares their cores. `make
bench-peers`.

    python -m tests.bench.peers [--rounds 3] [--contenders NAME ...] [--sizes N ...] [--events N]
        [--out FILE]

Reviews of one sentence with its vector (384 numbers) for entities that have 10, 100, 1,000 or
10,000 sentences already, k = 20:

    worker    settings as they come: exact summaries, exactly once; an event where a summary changes
    trivial   Kafka Streams, exactly_once_v2: keeps each review in RocksDB, an event for each; the
              least such a service can do
    brute     the same, and for each event all of the entity's vectors read and ranked; an event
              where a summary changes
    faust     Faust as its documentation has it: keeps each review, an event for each; loses or
              repeats events when it ends

What `trivial` and `faust` publish are few bytes; a summary has 20 sentences. None of the peers
knows edits, deletions, versions, dead letters or bounds of memory. Rates are by the broker's clock,
from the first commit of the load to its last.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.kafka_streams.application import INSTALL, missing_tools
from tests.bench.machine import began, command_line, write
from tests.bench.peers.comparison import SIZES, rows, take
from tests.bench.peers.contenders import BRUTE, CONTENDERS, PARTITIONS, THREADS, TRIVIAL, classes
from tests.bench.peers.table import RESULTS, peers_table
from tests.bench.worker.throughput import in_turns
from tests.harness.broker import KafkaBroker

TARGETS = {f"over_{BRUTE.name}": 1.0, f"over_{TRIVIAL.name}": 0.5}
"""The worker's events/s over those of the peer, at every size."""


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES), metavar="N"
    )
    given = parser.parse_args()
    if missing := missing_tools():
        print(f"needs {' and '.join(missing)}: {INSTALL}", file=sys.stderr)
        return 2
    record = began("tests.bench.peers") | {
        "targets": TARGETS,
        "partitions": PARTITIONS,
        "streams_threads": THREADS,
    }
    who, done = [CONTENDERS[name] for name in given.contenders], []
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as kafka:
        folder = Path(scratch)
        classpath = classes(folder / "classes")
        for number in range(given.rounds):
            for size in given.sizes:
                for one in in_turns(who, number):
                    figures = take(one, number, size, given.events, kafka, folder, classpath)
                    done.append(
                        {"round": number, "sentences": size, "contender": one.name, **figures}
                    )
                    print(done[-1], flush=True)
    write(given.out, record | {"rows": rows(done), "turns": done})
    print(peers_table(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
