"""The faults that all contenders go through: of each broker in turn, and of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.harness.cluster_faults import (
    each_node,
    freeze,
    kill,
    kill_worker,
    restart_worker,
    roll_workers,
    stop,
)
from tests.harness.ride import ALL, ClusterFault

STOPPED_SECONDS = 3.0
GONE_SECONDS = 8.0
"""Seconds for which a killed or frozen broker is away: longer than its session of 6 s, so that
other brokers take over its partitions.
"""
LOST_SECONDS = 15.0
"""Seconds for which a lost instance is away: longer than its session of 10 s."""
BALANCED = {"leader.imbalance.check.interval.seconds": "1"}
"""Of the brokers: whoever is back leads again before the next fault."""

Faults = Mapping[str, Sequence[ClusterFault]]

BROKERS: Faults = {
    "each broker stopped (SIGTERM)": each_node(stop, [STOPPED_SECONDS] * len(ALL)),
    "each broker killed": each_node(kill, [GONE_SECONDS] * len(ALL)),
    "each broker frozen": each_node(freeze, [GONE_SECONDS] * len(ALL)),
}
INSTANCES: Faults = {
    "an instance stopped (SIGTERM) and started": [ClusterFault("stop", 0, (restart_worker(),))],
    "an instance killed and started": [ClusterFault("kill", 0, (kill_worker(),))],
    f"an instance killed, back after {LOST_SECONDS:.0f} s": [
        ClusterFault("lose", LOST_SECONDS, (kill_worker(),))
    ],
    "all instances restarted one after the other": [ClusterFault("roll", 0, (roll_workers(),))],
}
