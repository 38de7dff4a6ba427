"""A rolling update of a release: real workers on a real Kafka under load, by the probes and the
grace period of the chart.

What runs is the StatefulSet as helm renders it: its environment, command, probes and grace period.
The cluster is played: one pod after the other, the last one first, gets SIGTERM and its grace
period. Its successor has the same name and volume, and the next pod's turn comes when it is ready.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.deploy.chart import Object, environment, facts_of, only, render, worker
from tests.deploy.kubelet import Kubelet, Replaced
from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.patience import TEST_SECONDS
from tests.harness.record import Row
from tests.harness.scenario import judge
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

pytestmark = [pytest.mark.helm, pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

DIMENSION = 32


def release(site: Pipeline, standbys: int, workers: int) -> list[Object]:
    """The objects of a release on a pipeline's topics, whose events bring their vectors."""
    return render(
        {
            "replicaCount": workers,
            "kafka": {
                "bootstrapServers": site.broker.bootstrap_servers,
                "inputTopics": [site.input_topic],
                "outputTopic": site.output_topic,
                "errorTopic": site.dlq_topic,
                "applicationId": site.name,
            },
            "commandLine": {
                "EMBEDDER": "none",
                "DIMENSION": DIMENSION,
                "STANDBY_REPLICAS": standbys,
            },
        }
    )


def pods(site: Pipeline, objects: Sequence[Object]) -> list[Kubelet]:
    """The pods of a release, not started: with the environment of the chart, but that all are on
    one machine.
    """
    stateful_set, container = only(objects, "StatefulSet")["spec"], worker(objects)
    assert container["args"] == ["run"]
    made = []
    for ordinal in range(stateful_set["replicas"]):
        facts = facts_of(ordinal)
        directory = site.directory / facts["metadata.name"]
        variables = environment(container, facts) | {
            "COVERSUMM_DATA_DIR": str(directory / "data"),
            "COVERSUMM_MODEL_CACHE_DIR": str(directory / "models"),
            "COVERSUMM_WEB_BIND": "127.0.0.1",
        }
        site.workers.append(WorkerProcess(directory, variables))
        grace_s = stateful_set["template"]["spec"]["terminationGracePeriodSeconds"]
        made.append(Kubelet(facts["metadata.name"], site.workers[-1], container, grace_s))
    return made


def update(running: Sequence[Kubelet], away_s: float) -> list[Replaced]:
    """One pod after the other, the last one first, as the controller of a StatefulSet has it."""
    done = [pod.replace(away_s) for pod in reversed(running)]
    assert all(pod.healthy() and pod.ready for pod in running)
    return done


@pytest.mark.long
def test_two_workers_are_replaced_by_the_charts_probes_and_nothing_is_lost(tmp_path: Path) -> None:
    settings = {"COVERSUMM_DIMENSION": str(DIMENSION)}
    with (
        KafkaBroker(tmp_path / "broker") as broker,
        pipeline(broker, "rollout", tmp_path / "site", settings=settings) as site,
    ):
        running = pods(site, release(site, standbys=0, workers=2))
        for pod in running:
            pod.start()
        for pod in running:
            pod.wait_ready()
        events = rounds(read_reviews(), HashedVectors(DIMENSION))
        load = SteadyLoad(broker.bootstrap_servers, site.input_topic, events, 20.0)
        replaced = update(running, away_s=0.0)
        load.end()
        site.wait_caught_up()
        assert [pod.stop()[0] for pod in running] == [0, 0]
        judge(site, Row("rollout"))
    assert [one.name for one in replaced] == [pod.name for pod in reversed(running)]
    assert [one.exit_code for one in replaced] == [0, 0]
