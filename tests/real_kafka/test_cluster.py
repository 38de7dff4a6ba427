"""A worker rides through what a cluster of three does every week: nothing lost, repeated or wrong,
and no worker ends.

How long it pauses is measured by `make cluster-faults`, all faults with it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness.cluster import KafkaCluster
from tests.harness.eventually import eventually
from tests.harness.faults import NODES, Fault
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.record import ClusterRow, Recorder
from tests.harness.replays import ReplayProcess, done_by, published, replay, write_history
from tests.harness.scenario import through_faults
from tests.harness.small_load import LARGE_MESSAGES, SETTINGS, events
from tests.harness.topics import committed_offsets, producer
from tests.harness.workers import pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.mark.long
def test_leaders_go_where_they_are_sent_and_coordinators_are_known(cluster: KafkaCluster) -> None:
    """What faults are aimed by."""
    cluster.create_topic("led", 3)
    sender = producer(cluster.bootstrap_servers, **{"transactional.id": "aimed"})
    sender.init_transactions(PATIENCE_SECONDS)
    cluster.lead({("led", 0): 3, ("led", 1): 1, ("led", 2): 3})
    eventually(
        lambda: cluster.leaders("led") == {0: 3, 1: 1, 2: 3}, lambda: str(cluster.leaders("led"))
    )
    assert cluster.transaction_coordinator("aimed") in NODES
    committed_offsets(cluster.bootstrap_servers, "led", "some group")  # or there are no groups yet
    admin = cluster.admin()  # its futures are never done once it is collected
    group = admin.describe_consumer_groups(["some group"])["some group"].result(PATIENCE_SECONDS)
    assert group.coordinator.id == cluster.group_coordinator("some group")


@pytest.mark.long
def test_coordinators_stop_die_and_freeze_and_answers_are_lost(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    faults = [
        Fault("broker stopped", 4, nodes=("group coordinator",)),
        Fault("broker killed", 4, nodes=("transaction coordinator",)),
        Fault("broker frozen", 9, nodes=("group coordinator",)),
        Fault("answers lost", 12, nodes=("transaction coordinator",), worker="one"),
    ]
    through_faults(cluster, Recorder(ClusterRow), "coordinators", tmp_path, faults)


@pytest.mark.long
def test_a_replay_goes_on_while_brokers_come_and_go(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Each is away for a while, stopped, killed or frozen; the process stays, and what it publishes
    is what it would be.
    """
    keep = {**LARGE_MESSAGES, "retention.ms": "-1", "min.insync.replicas": "2"}
    with pipeline(cluster, "replayed", tmp_path, settings=SETTINGS, input_config=keep) as site:
        count = write_history(site, events(900))
        calm = replay(site, "--name", "calm")
        process = ReplayProcess(
            site, "--name", "stormy", "--max-events-per-s", "20", label="stormy"
        ).start()
        eventually(lambda: done_by(site, "stormy") > 0, lambda: process.errors)
        one, two, three = cluster.nodes
        for away, back in (
            (one.stop, one.start),
            (two.kill, two.start),
            (three.pause, three.resume),
        ):
            away()
            time.sleep(4)
            back()
            cluster.wait_until_whole()
        assert process.alive, process.errors
        assert done_by(site, "stormy") < count  # there was something to ride through
        report = process.report()
        done = ("read", "applied", "ignored", "dead_letters", "changes", "published")
        assert [report[name] for name in done] == [calm[name] for name in done]
        outputs = [published(site, f"{site.output_topic}.{name}") for name in ("calm", "stormy")]
        assert outputs[0] == outputs[1] != []
