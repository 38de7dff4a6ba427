"""Events a second of the worker beside peers, in turns on one Kafka that shares their cores. `make
bench-peers`.

    python -m tests.bench.peers [--rounds 3] [--contenders NAME ...] [--sizes N ...] [--events N]
        [--kills N] [--compiled FOLDER] [--out FILE]

Reviews of one sentence with its vector (384 numbers) for entities that have 10, 100, 1,000 or
10,000 sentences already, k = 20:

    worker         settings as they come: exact summaries, exactly once; an event where a summary
                   changes; with --compiled also with compiled modules
    trivial        Kafka Streams, exactly_once_v2: keeps each review in RocksDB, an event for each;
                   the least such a service can do
    brute          the same, and for each event all of the entity's vectors read and ranked; an
                   event where a summary changes
    faust          Faust as its documentation has it: keeps each review, an event for each
    quix           Quix Streams, exactly-once: keeps each review, an event for each
    quix_brute     the same, and for each event the entity's matrix, kept in memory, ranked by NumPy
    bytewax        Bytewax with recovery, at least once: keeps each review, an event for each
    bytewax_brute  the same with the entity as its state, ranked as by quix_brute
    pathway        Pathway with persistence, at least once: keeps each review, an event for each

What those that keep reviews publish are few bytes; a summary has 20 sentences. None of the peers
knows edits, deletions, versions, dead letters or bounds of memory. A rate is that of the load, from
its beginning until the last entity's last review is published, by the broker's clock: that review
lies at the entity's centroid, so that its summary changes. With --kills each contender that
publishes an event for each review, and the worker, is also ended by `kill -9` after half of so many
events, and started again; then its published events are counted, or verified.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.kafka_streams.application import INSTALL, missing_tools
from tests.bench.machine import began, command_line, write
from tests.bench.peers.comparison import SIZES, kill, rows, take
from tests.bench.peers.contenders import (
    BYTEWAX_BRUTE,
    CONTENDERS,
    OURS,
    PARTITIONS,
    QUIX_BRUTE,
    THREADS,
    classes,
    ours_compiled,
)
from tests.bench.peers.table import RESULTS, peers_table
from tests.bench.worker.throughput import in_turns
from tests.harness.broker import KafkaBroker

TARGETS = {QUIX_BRUTE.name: 2.0, BYTEWAX_BRUTE.name: 1.0}
"""The worker's figures over those of the peer, with 10 and 100 sentences."""


def main() -> int:
    """Measure, print, write; 0 also where a target is missed: the figures say so."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=40_000, help="events; 0 for no kill -9")
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES), metavar="N"
    )
    parser.add_argument(
        "--compiled", type=Path, help="also the worker from this folder (make wheel)"
    )
    given = parser.parse_args()
    if missing := missing_tools():
        print(f"needs {' and '.join(missing)}: {INSTALL}", file=sys.stderr)
        return 2
    who, done, kills = [CONTENDERS[name] for name in given.contenders], [], {}
    for one in [one for one in who if one.missing]:
        print(f"without {one.title}: make bench-peers installs it", file=sys.stderr)
        who.remove(one)
    if given.compiled is not None:
        who.insert(1, ours_compiled(given.compiled))
    record = began("tests.bench.peers") | {
        "targets": TARGETS,
        "partitions": PARTITIONS,
        "streams_threads": THREADS,
    }
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as kafka:
        folder = Path(scratch)
        classpath = classes(folder / "classes")
        for one in [one for one in who if given.kills and (one.keeps or one is OURS)]:
            kills[one.name] = kill(one, given.kills, kafka, folder, classpath)
            print(one.name, kills[one.name], flush=True)
        for number in range(given.rounds):
            for size in given.sizes:
                for one in in_turns(who, number):
                    figures = take(one, number, size, given.events, kafka, folder, classpath)
                    done.append(
                        {"round": number, "sentences": size, "contender": one.name, **figures}
                    )
                    print(done[-1], flush=True)
            made = {"rounds": number + 1, "rows": rows(done), "kills": kills, "turns": done}
            write(given.out, record | made)
    print(peers_table(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
