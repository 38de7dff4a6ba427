"""Events a second of the worker beside peers, in turns on one Kafka that shares their cores. `make
bench-peers`.

    python -m tests.bench.peers [--rounds 2] [--only warm|cold] [--contenders NAME ...]
        [--sizes N ...] [--entities N ...] [--skew S] [--events N] [--kills N] [--out FILE]

Reviews of one sentence with its vector (384 numbers) for entities that have 10, 100, 1,000 or
10,000 sentences already, k = 20:

    worker         settings as they come: exact summaries, exactly once; an event where a summary
                   changes
    worker_python  the same without native code
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

Cold entities have 20 sentences each, and most of them are not in memory: reviews of one sentence
for 10,000 or 200,000 of them, drawn by zipf. Each contender keeps its defaults; those that rank in
Python with a bound have the worker's, 256 MiB. 200,000 entities come only with `--only cold` and
have one round, without contenders that keep all state in memory. Cold entities have a record of
their own, peers_cold.json.

After each turn its output is checked: what keeps reviews published each of them once; of what ranks
the last summary of each entity with a mark is compared with brute force.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.bench.machine import began, command_line, write
from tests.bench.peers.application import INSTALL, missing_tools
from tests.bench.peers.comparison import kill, measured
from tests.bench.peers.contenders import (
    BYTEWAX_BRUTE,
    CONTENDERS,
    OURS,
    PARTITIONS,
    QUIX_BRUTE,
    THREADS,
    classes,
)
from tests.bench.peers.load import COLD_SIZES, SIZES, SKEW, cold, warm
from tests.bench.peers.table import COLD_RESULTS, RESULTS, cold_peers_table, peers_table
from tests.harness.broker import KafkaBroker

TARGETS = {QUIX_BRUTE.name: 2.0, BYTEWAX_BRUTE.name: 1.0}
"""The worker's figures over those of the peer, with 10 and 100 sentences."""


def main() -> int:
    """Measure, print, write; 1 where a contender published something wrong, stalled or ended; 0
    also where a target is missed: the figures say so.
    """
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("warm", "cold"), help="leave the other entities out")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=40_000, help="events; 0 for no kill -9")
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES), metavar="N"
    )
    parser.add_argument("--entities", nargs="+", type=int, help="cold ones", metavar="N")
    parser.add_argument("--skew", type=float, default=SKEW, help="of cold ones; 0 draws evenly")
    given = parser.parse_args()
    if missing := missing_tools():
        print(f"needs {' and '.join(missing)}: {INSTALL}", file=sys.stderr)
        return 2
    who = [CONTENDERS[name] for name in given.contenders]
    for contender in [contender for contender in who if contender.missing]:
        print(f"without {contender.title}: make bench-peers installs it", file=sys.stderr)
        who.remove(contender)
    of_warm = [] if given.only == "cold" else [warm(size) for size in given.sizes]
    sizes = given.entities or (COLD_SIZES if given.only else COLD_SIZES[:1])
    of_cold = [] if given.only == "warm" else [cold(size, given.skew) for size in sizes]
    cold_out = given.out.with_name(COLD_RESULTS.name)
    record = began("tests.bench.peers") | {
        "targets": TARGETS,
        "partitions": PARTITIONS,
        "streams_threads": THREADS,
    }
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch) / "broker") as kafka:
        folder = Path(scratch)
        where = (kafka, folder, classes(folder / "classes"))
        kills, right = {}, True
        for contender in [
            contender
            for contender in who
            if of_warm and given.kills and (contender.keeps or contender is OURS)
        ]:
            kills[contender.name] = kill(contender, given.kills, *where)
            print(contender.name, kills[contender.name], flush=True)
        for workloads, path, more in (
            (of_warm, given.out, {"kills": kills}),
            (of_cold, cold_out, {}),
        ):
            for found in measured(who, workloads, given.rounds, given.events, *where):
                write(path, record | found | more)
                wrong = found["stalled"] or any(turn["wrong"] for turn in found["turns"])
                right = right and not wrong
    if of_warm:
        print(peers_table(given.out))
    if of_cold:
        print(cold_peers_table(cold_out))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
