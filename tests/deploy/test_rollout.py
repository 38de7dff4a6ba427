"""A rolling update as the chart has it, in short: `make deploy-rollout` is the long one, with more
workers, and recorded.
"""

from pathlib import Path

import pytest

from tests.deploy.rollout import DIMENSION, pods, release, update
from tests.harness.broker import KafkaBroker
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.patience import TEST_SECONDS
from tests.harness.record import Row
from tests.harness.scenario import judge
from tests.harness.workers import pipeline

pytestmark = [pytest.mark.helm, pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


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
