"""The worker and Kafka Streams under the same faults of the same cluster, in turns: who pauses
longer? `make bench-peers ONLY=pauses`.

    python -m tests.bench.peers.pauses [--rounds 3] [--contenders NAME ...] [--standbys N ...]
        [--out FILE]

A turn is one contender, three instances over six partitions on three brokers with replication 3 and
a session of 6 s, under a steady load of `--rate` events a second; one fault follows the other, each
once all is well again. What counts is the longest pause of any partition (`tests.harness.pauses`)
in the span of each fault, and the instances that ended without a signal. Each round gives
every contender a turn without standbys under all faults, and one with a standby of each partition
under the faults of instances. Contenders:

    worker            settings as they come: session 10 s, no standbys unless said
    streams           Kafka Streams, exactly_once_v2; session 10 s, static members: as those run it
                      who restart it often
    streams-defaults  Kafka Streams, exactly_once_v2 and nothing else: session 45 s, dynamic members

The last one waits out its session at each fault of an instance: it has one turn alone, in the first
round. On two cores a round of the other two takes nine minutes without standbys, and three more
with them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line
from tests.bench.peers.application import INSTALL, compiled, missing_tools
from tests.bench.peers.pauses.comparison import (
    BALANCED,
    FAULTS,
    RUNNING,
    faults_of,
    rows,
    take,
    turns,
)
from tests.bench.peers.pauses.contenders import CONTENDERS, PARTITIONS
from tests.bench.peers.table import PAUSES, streams_table
from tests.harness.cluster import KafkaCluster
from tests.harness.record import finish


def show(done: dict[str, Any]) -> None:
    """A turn, as soon as it is over."""
    print(
        f"round {done['round'] + 1}, {done['contender']}, standbys {done['standbys']}: "
        f"{done['events']} events in "
        f"{done['seconds']} s, lost {done['lost']}, repeated {done['repeated']}, wrong "
        f"{done['wrong']}"
    )
    for fault, shown in done["faults"].items():
        ended = ", ".join(shown["ends"]) or "none"
        print(
            f"  {fault:44} {shown['longest_pause_s']:6.2f} s {shown['each_s']}, took "
            f"{shown['seconds']} s, ended: {ended}"
        )
    sys.stdout.flush()


@contextmanager
def scratch_folder(keep: Path | None) -> Iterator[Path]:
    """A folder for everything, that is removed unless it has a name."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)


def main() -> int:
    """Measure, print, write."""
    parser = command_line(__doc__, PAUSES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), metavar="NAME"
    )
    parser.add_argument(
        "--standbys", type=int, nargs="+", choices=FAULTS, default=list(FAULTS), metavar="N"
    )
    parser.add_argument("--rate", type=float, default=60.0, help="events a second")
    parser.add_argument(
        "--keep", type=Path, help="a folder for all data and logs; else they are removed"
    )
    given = parser.parse_args()
    contenders = [CONTENDERS[name] for name in given.contenders]
    if missing := missing_tools():
        print(f"needs {' and '.join(missing)}: {INSTALL}", file=sys.stderr)
        return 2
    record = began("tests.bench.peers.pauses")
    done = []
    with scratch_folder(given.keep) as folder, KafkaCluster(folder / "kafka", BALANCED) as cluster:
        classpath = compiled(folder / "classes")
        for turn in turns(given.rounds, contenders, given.standbys):
            done.append(take(turn, cluster, folder, classpath, given.rate))
            show(done[-1])
    record |= {
        "events_per_s": given.rate,
        "instances": RUNNING,
        "partitions": PARTITIONS,
        "kafka_streams": {
            contender.name: contender.config
            for contender in contenders
            if contender.config is not None
        },
        "rows": rows(done),
        "turns": done,
    }
    code = finish(given.out, record, faults_of(done))
    print(streams_table(given.out))
    return code


if __name__ == "__main__":
    sys.exit(main())
