"""The faults that all contenders go through: of each broker in turn, and of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.harness.faults import NODES, Fault, each_node

STOPPED_SECONDS = 3.0
GONE_SECONDS = 8.0
"""Seconds for which a killed or frozen broker is away: longer than its session of 6 s, so that
other brokers take over its partitions.
"""
LOST_SECONDS = 15.0
"""Seconds for which a lost instance is away: longer than its session of 10 s."""
BALANCED = {"leader.imbalance.check.interval.seconds": "1"}
"""Of the brokers: whoever is back leads again before the next fault."""

Faults = Mapping[str, Sequence[Fault]]

BROKERS: Faults = {
    "each broker stopped (SIGTERM)": each_node("broker stopped", [STOPPED_SECONDS] * len(NODES)),
    "each broker killed": each_node("broker killed", [GONE_SECONDS] * len(NODES)),
    "each broker frozen": each_node("broker frozen", [GONE_SECONDS] * len(NODES)),
}
INSTANCES: Faults = {
    "an instance stopped (SIGTERM) and started": [Fault("worker restarted")],
    "an instance killed and started": [Fault("worker killed")],
    f"an instance killed, back after {LOST_SECONDS:.0f} s": [Fault("worker killed", LOST_SECONDS)],
    "all instances restarted one after the other": [Fault("workers rolled")],
}
