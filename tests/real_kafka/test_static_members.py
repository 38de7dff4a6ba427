"""Static members of a real group: who is back within the session finds its partitions as they were,
and nobody else notices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import dynamic
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, SteadyLoad, read_reviews, rounds
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import DIMENSION, SETTINGS, check, events, feed
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

# Longer than any start on a busy machine: whoever is back is back within its session.
LONG = {**SETTINGS, "COVERSUMM_SESSION_TIMEOUT_MS": "60000"}


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, with sessions that outlast a restart."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    with pipeline(kafka, name, tmp_path, settings=LONG) as made:
        yield made


def members(site: Pipeline) -> dict[str, set[int]]:
    """By member id the input's partitions it has, as the broker tells it."""
    admin = site.broker.admin()
    described = admin.describe_consumer_groups([site.name])[site.name].result(PATIENCE_SECONDS)
    return {
        member.member_id: {
            tp.partition
            for tp in member.assignment.topic_partitions
            if tp.topic == site.input_topic
        }
        for member in described.members
    }


def held(worker: WorkerProcess) -> str:
    """Which partitions its log said last that it has."""
    return str(re.findall(r"(?:processes partitions|, has) (.*?) of \d+", worker.log_text())[-1])


def rebalances(worker: WorkerProcess) -> int:
    """How many its log tells of."""
    return worker.log_text().count("rebalanced in")


def settled(site: Pipeline, count: int) -> None:
    """Return when each of so many members has as many partitions as any other, and every worker is
    ready.
    """
    share = {site.partitions // count}

    def done() -> bool:
        return {len(member) for member in members(site).values()} == share and all(
            worker.ready() for worker in site.workers if worker.alive
        )

    eventually(done, lambda: f"{members(site)}\n{site.logs()}")


@pytest.mark.parametrize("how", ["terminate", "kill"])
@pytest.mark.long
def test_a_restart_within_the_session_is_noticed_by_nobody(site: Pipeline, how: str) -> None:
    """Each in turn, the group's leader too: the others go on under the same generation, and rows
    are where they were.
    """
    workers = site.start(2)
    settled(site, 2)
    load = events(300)
    feed(site, load)
    site.wait_caught_up()
    before = {worker: held(worker) for worker in workers}
    counted = {worker: rebalances(worker) for worker in workers}
    for worker in workers:
        getattr(worker, how)()
        worker.start().wait_ready()
        feed(site, events(50, seed=worker.web_port))
        site.wait_caught_up()
    assert {worker: held(worker) for worker in workers} == before
    assert {worker: rebalances(worker) for worker in workers} == counted
    check(site)


@pytest.mark.long
def test_a_second_worker_of_one_name_ends_the_first_though_nothing_is_committed(
    site: Pipeline,
) -> None:
    """The last one works. The first hears of it by its heartbeat: there is no commit that would be
    refused.
    """
    (first,) = site.start(1)
    second = site.worker(instance_id=instance_of(first)).start()
    second.wait_ready()
    assert first.wait() == 4, first.log_end()
    (line,) = [
        line
        for line in first.log_text().splitlines()
        if line.startswith("coversumm-worker: error:")
    ]
    assert "another worker has this instance id" in line
    assert "COVERSUMM_INSTANCE_ID" in line
    assert "Traceback" not in first.log_text()
    assert len(members(site)) == 1
    feed(site, events(50))
    site.wait_caught_up()
    assert second.terminate() == 0
    site.verify()


def instance_of(worker: WorkerProcess) -> str:
    """What it says of itself at its start."""
    return re.findall(r"instance ([^,]+),", worker.log_text())[-1]


@pytest.mark.long
def test_a_worker_that_is_back_at_another_address_tells_the_others(site: Pipeline) -> None:
    """Each in turn: one of them leads the group. One rebalance each, for whoever asks for an entity
    is sent to its owner.
    """
    workers = site.start(2)
    settled(site, 2)
    for worker, other in (workers, workers[::-1]):
        had, before = held(worker), rebalances(other)
        worker.terminate()
        worker.environment["COVERSUMM_WEB_ADVERTISED_URL"] = url = (
            f"http://localhost:{worker.web_port}"
        )
        worker.start()
        eventually(lambda: url in others(other), other.log_end)  # noqa: B023 - it is over within the round
        settled(site, 2)
        assert held(worker) == had
        assert rebalances(other) == before + 1
        assert "Unexpected error" not in worker.log_text()


def others(worker: WorkerProcess) -> Any:
    """Where it says that the other partitions are, by address."""
    with worker.get("/status") as answer:
        return json.load(answer)["others"]


@pytest.mark.long
def test_a_worker_that_does_not_come_back_loses_its_partitions_with_its_session(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    with pipeline(kafka, "gone-for-good", tmp_path, settings=SETTINGS) as site:
        staying, going = site.start(2)
        settled(site, 2)
        assert going.terminate() == 0
        assert len(members(site)) == 2  # it is expected
        settled(site, 1)
        eventually(lambda: held(staying) == "0-3", staying.log_end)


@pytest.mark.long
def test_a_worker_that_is_back_after_its_session_finds_its_partitions(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Each in turn: the other one had all of them meanwhile. It restores what it missed alone, and
    the other one nothing.
    """
    with pipeline(kafka, "back-after-its-session", tmp_path, settings=SETTINGS) as site:
        workers = site.start(2)
        settled(site, 2)
        feed(site, events(300))
        site.wait_caught_up()
        before = {worker: held(worker) for worker in workers}
        for worker, other in (workers, workers[::-1]):
            assert worker.terminate() == 0
            eventually(lambda: held(other) == "0-3", other.log_end)  # noqa: B023 - within the round
            feed(site, events(3, seed=worker.web_port))
            site.wait_caught_up()
            ends = len(worker.restored_rows()), len(other.restored_rows())
            worker.start().wait_ready()
            settled(site, 2)
            site.wait_caught_up()
            assert {worker: held(worker) for worker in workers} == before
            missed, none = worker.restored_rows()[ends[0] :], other.restored_rows()[ends[1] :]
            assert 0 <= sum(missed) < 100 * len(missed), worker.log_end()
            assert none == [0] * len(none) != [], other.log_end()
        check(site)


@pytest.mark.long
def test_a_rolling_update_from_dynamic_members(site: Pipeline) -> None:
    """One after the other comes back as a static member, under load: meanwhile a group has both
    kinds.
    """
    site.launcher = dynamic.__name__
    before = site.start(2)
    site.launcher = None
    events_now = rounds(read_reviews(limit=200), HashedVectors(DIMENSION))
    load = SteadyLoad(site.broker.bootstrap_servers, site.input_topic, events_now, 30)
    for worker in before:
        assert worker.terminate() == 0
        site.worker(data_dir=str(worker.data_dir)).start().wait_ready()
        settled(site, 2)
    load.end()
    site.wait_caught_up()
    check(site)
