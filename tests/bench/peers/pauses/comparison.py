"""Turns of the contenders, what is measured in each, and what they make together."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.peers.application import Verdict
from tests.bench.peers.pauses.contenders import CONTENDERS, DEFAULTS, Contender, many_entities
from tests.harness.cluster import KafkaCluster
from tests.harness.faults import NODES, Fault, each_node
from tests.harness.load import SteadyLoad
from tests.harness.pauses import Pause, longest, read_pauses
from tests.harness.run import Run, Strike
from tests.harness.site import Site

STOPPED_SECONDS = 3.0
GONE_SECONDS = 8.0
"""Seconds for which a killed or frozen broker is away: longer than its session of 6 s, so that
other brokers take over its partitions.
"""
LOST_SECONDS = 15.0
"""Seconds for which a lost instance is away: longer than its session of 10 s."""
BALANCED = {"leader.imbalance.check.interval.seconds": "1"}
"""Settings of the brokers: one that is back leads its partitions again before the next fault."""

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

RUNNING = 3
"""Instances of a contender."""
FAULTS = {0: {**BROKERS, **INSTANCES}, 1: INSTANCES}
"""By the number of standbys."""


class Turn(NamedTuple):
    """One contender at work, with so many standbys, in this round."""

    round: int
    contender: Contender
    standbys: int

    @property
    def name(self) -> str:
        """Of its group, unlike all others on the cluster."""
        return f"{self.contender.name}-{self.round}-{self.standbys}"


def turns(rounds: int, contenders: list[Contender], standbys: list[int]) -> Iterator[Turn]:
    """Every round the contenders in the other order; the slow one once, without standbys if those
    are asked for.
    """
    for number in range(rounds):
        for contender in contenders[:: -1 if number % 2 else 1]:
            once = contender is DEFAULTS
            for count in standbys[:1] if once else standbys:
                if not (once and number):
                    yield Turn(number, contender, count)


def take(
    turn: Turn, cluster: KafkaCluster, folder: Path, classpath: str, rate: float
) -> dict[str, Any]:
    """One turn: pauses and ends for each fault, and whether anything was lost."""
    began_s = time.monotonic()
    opened = turn.contender.open(cluster, turn.name, folder / turn.name, classpath, turn.standbys)
    with opened as site, Site([site]) as watched:
        run = Run(watched)
        load = SteadyLoad(cluster.bootstrap_servers, site.input_topic, many_entities(), rate)
        turn.contender.start(site, RUNNING)
        run.through([*chain(*FAULTS[turn.standbys].values())])
        load.end()
        site.wait_caught_up()
        site.stop()
        verdict = turn.contender.judge(site)
        found = read_pauses(cluster.bootstrap_servers, turn.name, site.input_topic)
    strikes = iter(run.strikes)
    return {
        "round": turn.round,
        "contender": turn.contender.name,
        "standbys": turn.standbys,
        "faults": {
            name: became([*islice(strikes, len(faults))], found)
            for name, faults in FAULTS[turn.standbys].items()
        },
        "events": load.sent,
        **verdict._asdict(),
        "seconds": round(time.monotonic() - began_s),
    }


def became(strikes: Sequence[Strike], found: Sequence[Pause]) -> dict[str, Any]:
    """The longest pause of any partition at each strike of a fault and of all, and the instances
    that ended.
    """
    each = [
        round(max(longest(found, strike.since_ms, strike.until_ms).values(), default=0.0), 2)
        for strike in strikes
    ]
    return {
        "longest_pause_s": max(each),
        "each_s": each,
        "ends": [str(end) for strike in strikes for end in strike.ends],
        "seconds": round((strikes[-1].until_ms - strikes[0].since_ms) / 1000),
    }


def rows(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each fault, with and without standbys, what every contender that took part showed."""
    found = []
    for standbys, faults in FAULTS.items():
        mine = [turn for turn in done if turn["standbys"] == standbys]
        shown = {name: [turn for turn in mine if turn["contender"] == name] for name in CONTENDERS}
        for fault in faults if mine else ():
            measured = {name: _measured(fault, turns) for name, turns in shown.items() if turns}
            found.append({"fault": fault, "standbys": standbys, **measured})
    return found


def _measured(fault: str, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Round by round the longest pause, their median, and all ends together."""
    shown = [turn["faults"][fault] for turn in turns]
    pauses = [row["longest_pause_s"] for row in shown]
    ends = sum(len(row["ends"]) for row in shown)
    return {"longest_pauses_s": pauses, "median_s": statistics.median(pauses), "ends": ends}


def faults_of(done: list[dict[str, Any]]) -> list[str]:
    """What must not be, of whomever."""
    return [
        f"{turn['contender']}, round {turn['round'] + 1}: {turn[what]} {what}"
        for turn in done
        for what in Verdict._fields
        if turn[what]
    ]
