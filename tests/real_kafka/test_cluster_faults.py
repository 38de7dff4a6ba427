"""The long ones: `make cluster-faults`. Every fault of a cluster of three and of its network; the
rows of its record.

Targets: no worker ends. No partition is without a commit for more than 10 s when a broker is
stopped in order, and for no longer than the broker's session (6 s) and 10 s when it is killed or
frozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.cluster import KafkaCluster
from tests.harness.cluster_faults import (
    each_network,
    each_node,
    freeze,
    kill,
    move_leaders,
    network,
    random_faults,
    roll_brokers,
    roll_workers,
    stop,
)
from tests.harness.cluster_record import ClusterRow
from tests.harness.record import Recorder
from tests.harness.ride import ALL, CLIENTS, ClusterFault, Where
from tests.harness.scenario import ride_through

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

COORDINATORS: tuple[Where, ...] = ("transaction coordinator", "group coordinator")
LENGTHS = (4.0, 10.0, 20.0)
ONE, TWO = CLIENTS

NODES_AWAY = [
    ("nothing", [ClusterFault("nothing", 60, ())]),
    ("each broker stopped in order, 4 to 20 s", each_node(stop, LENGTHS)),
    ("each broker killed, 4 to 20 s", each_node(kill, LENGTHS)),
    ("each broker frozen, 4 to 20 s", each_node(freeze, LENGTHS)),
    (
        "each coordinator stopped, killed and frozen, 12 s",
        [
            ClusterFault(f"{act.__name__} {where}", 12, (act(where),))
            for where in COORDINATORS
            for act in (stop, kill, freeze)
        ],
    ),
    ("leaders moved by hand", [ClusterFault(f"move {i}", 4, (move_leaders(),)) for i in range(4)]),
    (
        "min.insync.replicas lost: two of three stopped or frozen, 60 s",
        [
            ClusterFault("stop 1 2", 60, (stop(1, 2),)),
            ClusterFault("freeze 2 3", 60, (freeze(2, 3),)),
        ],
    ),
    ("all three killed, 180 s", [ClusterFault("kill all", 180, (kill(*ALL),))]),
    (
        "a rolling restart of brokers, then of workers",
        [
            ClusterFault("brokers", 5, (roll_brokers(),)),
            ClusterFault("workers", 5, (roll_workers(),)),
        ],
    ),
]
NETWORK = [
    (
        f"{what}, between a worker and each broker, and all, {seconds:g} s",
        each_network(mode, seconds),
    )
    for mode, what in (("swallow", "requests lost"), ("mute", "answers lost"), ("reset", "resets"))
    for seconds in (3, 15)
]
BOTH = [
    (
        "a broker killed or frozen while another's answers are lost, 8 s",
        [
            ClusterFault("kill 1, mute one and 2", 8, (network("mute", ONE, 2), kill(1))),
            ClusterFault("freeze 2, mute two and 3", 8, (network("mute", TWO, 3), freeze(2))),
            ClusterFault("stop 3, swallow one and 1", 8, (network("swallow", ONE, 1), stop(3))),
        ],
    ),
    ("at random, brokers and network, 1 to 20 s", random_faults(12, seed=1)),
]


ROWS = [(*row, False) for row in NODES_AWAY] + [(*row, True) for row in NETWORK + BOTH]


@pytest.mark.parametrize(("row", "faults", "proxied"), ROWS, ids=[row for row, *_ in ROWS])
def test_of_a_cluster(
    cluster: KafkaCluster,
    tmp_path: Path,
    cluster_recorder: Recorder[ClusterRow],
    row: str,
    faults: Sequence[ClusterFault],
    proxied: bool,
) -> None:
    """The workers talk to the brokers directly, or each through proxies of its own."""
    ride_through(cluster, cluster_recorder, row, tmp_path, faults, proxied=proxied)
