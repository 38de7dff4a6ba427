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
from tests.harness.faults import Fault, each_network, each_node, random_cluster_faults
from tests.harness.record import ClusterRow, Recorder
from tests.harness.scenario import through_faults
from tests.harness.site import Where

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

COORDINATORS: tuple[Where, ...] = ("transaction coordinator", "group coordinator")
AWAY = ("broker stopped", "broker killed", "broker frozen")
LENGTHS = (4.0, 10.0, 20.0)


def lost(answers_or_requests: str, worker: str, node: int) -> tuple[Fault, ...]:
    """Of a worker at a node, while something else happens."""
    return (Fault(f"{answers_or_requests} lost", nodes=(node,), worker=worker),)


ROWS: dict[str, Sequence[Fault]] = {
    "nothing": [Fault("nothing", 60)],
    "each broker stopped in order, 4 to 20 s": each_node("broker stopped", LENGTHS),
    "each broker killed, 4 to 20 s": each_node("broker killed", LENGTHS),
    "each broker frozen, 4 to 20 s": each_node("broker frozen", LENGTHS),
    "each coordinator stopped, killed and frozen, 12 s": [
        Fault(kind, 12, nodes=(where,)) for where in COORDINATORS for kind in AWAY
    ],
    "leaders moved by hand": [Fault("leaders moved", 4)] * 4,
    "min.insync.replicas lost: two of three stopped or frozen, 60 s": [
        Fault("broker stopped", 60, nodes=(1, 2)),
        Fault("broker frozen", 60, nodes=(2, 3)),
    ],
    "all three killed, 180 s": [Fault("broker killed", 180)],
    "a rolling restart of brokers, then of workers": [
        Fault("brokers rolled", 5),
        Fault("workers rolled", 5),
    ],
    **{
        f"{what}, between a worker and each broker, and all, {seconds:g} s": each_network(
            kind, seconds
        )
        for kind, what in (
            ("requests lost", "requests lost"),
            ("answers lost", "answers lost"),
            ("connections reset", "resets"),
        )
        for seconds in (3, 15)
    },
    "a broker killed or frozen while another's answers are lost, 8 s": [
        Fault("broker killed", 8, nodes=(1,), besides=lost("answers", "one", 2)),
        Fault("broker frozen", 8, nodes=(2,), besides=lost("answers", "two", 3)),
        Fault("broker stopped", 8, nodes=(3,), besides=lost("requests", "one", 1)),
    ],
    "at random, brokers and network, 1 to 20 s": random_cluster_faults(12, seed=1),
}


@pytest.mark.parametrize("row", ROWS)
def test_of_a_cluster(
    cluster: KafkaCluster, tmp_path: Path, cluster_recorder: Recorder[ClusterRow], row: str
) -> None:
    """The workers talk to the brokers directly, or, where a network fails, each through proxies of
    its own.
    """
    through_faults(cluster, cluster_recorder, row, tmp_path, ROWS[row])
