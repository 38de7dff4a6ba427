"""What is wrong with a worker's surroundings ends it with the right exit code and one line that
says what to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.harness.broker import WITHOUT_TRANSACTIONS, KafkaBroker
from tests.harness.long import one_of
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.small_load import SETTINGS, events, feed
from tests.harness.workers import Pipeline, WorkerProcess, pipeline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, not started."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    with pipeline(kafka, name, tmp_path, settings=SETTINGS) as made:
        yield made


def test_missing_input_topic(site: Pipeline) -> None:
    site.worker(input_topic="no.such.topic").refused("no.such.topic", "coversumm-worker topics")


@pytest.mark.long
def test_output_with_another_partition_count(site: Pipeline) -> None:
    site.broker.create_topic(site.output_topic, site.partitions + 1)
    site.worker().refused(site.output_topic, str(site.partitions), str(site.partitions + 1))


@pytest.mark.long
def test_changelog_with_another_partition_count(site: Pipeline) -> None:
    site.broker.create_topic(site.changelog_topic, 1)
    site.worker().refused(site.changelog_topic)


def test_unreachable_broker(site: Pipeline) -> None:
    worker = site.worker()
    address = f"127.0.0.1:{free_port()}"
    worker.environment["KAFKA_BOOTSTRAP_SERVERS"] = address
    worker.refused(address)


@pytest.mark.long
def test_broker_without_transactions(tmp_path: Path) -> None:
    with (
        KafkaBroker(tmp_path / "broker", WITHOUT_TRANSACTIONS) as broker,
        pipeline(broker, "no-transactions", tmp_path, settings=SETTINGS) as site,
    ):
        site.worker().refused("exactly-once delivery needs")


@pytest.mark.long
def test_data_directory_that_cannot_be_written(site: Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("")
    site.worker(data_dir=str(file)).refused("COVERSUMM_DATA_DIR", str(file))


def test_data_directory_in_use(site: Pipeline) -> None:
    (first,) = site.start(1)
    second = site.worker("second", data_dir=str(first.data_dir))
    second.refused("COVERSUMM_DATA_DIR", "in use")
    first.wait_ready()
    assert first.terminate() == 0


@pytest.mark.long
def test_two_workers_with_one_instance_id(site: Pipeline) -> None:
    """The newer one takes the transactional id over; the older one learns it at its next
    commit, and says so.
    """
    older = site.worker("older", instance_id="same").start()
    older.wait_ready()
    newer = site.worker("newer", instance_id="same").start()
    newer.wait_ready()
    feed(site, events(200))
    line = older.refused("same", code=4)
    assert "instance" in line.lower()
    site.wait_caught_up()
    assert newer.terminate() == 0
    site.verify()


@pytest.mark.long
def test_committed_offset_beyond_the_log(site: Pipeline) -> None:
    worker = processed(site)
    site.set_offsets({partition: end + 1000 for partition, end in site.targets().items()})
    worker.refused_again("outside the log", site.input_topic)


@pytest.mark.long
def test_committed_offset_before_the_log(site: Pipeline) -> None:
    """Retention passed over what was not read yet: never skipped silently."""
    worker = processed(site)
    targets = site.targets()
    feed(site, events(100, seed=1))
    admin = site.broker.admin()
    wanted = [
        TopicPartition(site.input_topic, partition, end + 1) for partition, end in targets.items()
    ]
    for future in admin.delete_records(wanted).values():
        future.result(PATIENCE_SECONDS)
    worker.refused_again("outside the log", site.input_topic)


@pytest.mark.parametrize(("setting", "value"), one_of([("K", "6"), ("EPOCH", "2")]))
def test_another_kind_of_summary_on_the_same_state(
    site: Pipeline, setting: str, value: str
) -> None:
    worker = processed(site)
    worker.environment[f"COVERSUMM_{setting}"] = value
    worker.refused_again(setting.lower(), f"configured '{value}'", "own COVERSUMM_EPOCH")


@pytest.mark.long
def test_another_k_on_a_restored_state(site: Pipeline) -> None:
    """The changelog remembers as well as the data directory does."""
    worker = processed(site)
    shutil.rmtree(worker.data_dir)
    worker.environment["COVERSUMM_K"] = "6"
    worker.refused_again("own COVERSUMM_EPOCH")


def test_ctrl_c_is_130(site: Pipeline) -> None:
    (worker,) = site.start(1)
    worker.interrupt()
    assert worker.wait() == 130


def processed(site: Pipeline) -> WorkerProcess:
    """A worker that has processed a load and was stopped."""
    (worker,) = site.start(1)
    feed(site, events(100))
    site.wait_caught_up()
    assert worker.terminate() == 0
    return worker
