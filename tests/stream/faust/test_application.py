"""The worker's Faust app: the Faust it needs, and how it is set up so that nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClients
from tests.harness.stream import no_seek
from worker.app import assemble
from worker.errors import SetupError
from worker.parts import Parts
from worker.processing.config import Emit
from worker.settings import Settings
from worker.storage.databases import Databases
from worker.stream.faust.application import (
    MAX_FETCH_BYTES,
    MAX_FETCHED_BYTES,
    MIN_FETCH_BYTES,
    CommittedTable,
    CoverSummApp,
    StaticAssignor,
    faust_app,
    fetch_bytes,
)
from worker.stream.faust.consumer import GuardedConsumer
from worker.stream.faust.process import FAUST_NAMES, check_faust
from worker.stream.run_bounds import ENDLESS, RunBounds
from worker.stream.surroundings import Surroundings
from worker.stream.worker import StreamWorker
from worker.telemetry.metrics import Metrics


def assembled(tmp_path: Path, bounds: RunBounds = ENDLESS) -> StreamWorker:
    settings = Settings(
        bootstrap_servers="one:9092, two:9093",
        input_topic="reviews",
        app_id="app",
        instance_id="three",
        data_dir=tmp_path,
        embedder="none",
        batch_size=77,
        session_timeout_ms=12_000,
        standby_replicas=1,
    )
    clients = FakeClients(producer=lambda options: None, admin=lambda: None)
    surroundings = Surroundings(clients, Databases(tmp_path, 2**24, 5, print))
    return assemble(Parts(settings), 5, Metrics(), surroundings, no_seek, bounds)


@pytest.fixture
def app(tmp_path: Path) -> CoverSummApp:
    return faust_app(assembled(tmp_path))


@pytest.mark.parametrize(
    ("emit", "output"),
    [
        (None, "marketplace.review-summaries.v1"),
        ("final", "marketplace.review-summaries.v1"),
        ("none", None),
    ],
)
def test_the_ids_of_all_topics_that_a_worker_builds_on_are_checked(
    tmp_path: Path, emit: Emit | None, output: str | None
) -> None:
    """A replay that publishes nowhere has no output topic."""
    logs = assembled(tmp_path, replace(ENDLESS, emit=emit)).logs
    assert logs.output == output
    assert logs.ids.topics == ("reviews", *([output] if output else []), "app-entities-changelog")


def test_everything_that_is_overridden_exists_in_the_installed_faust() -> None:
    check_faust()


@pytest.mark.parametrize("place", list(FAUST_NAMES))
def test_a_faust_without_an_overridden_name_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAUST_NAMES, place, "_a_name_of_another_version")
    with pytest.raises(SetupError, match="_a_name_of_another_version: install the version"):
        check_faust()


def test_every_method_that_the_guarded_consumer_overrides_is_checked_for() -> None:
    from faust.transport.drivers import aiokafka as driver

    named = vars(GuardedConsumer)
    own = {name for name, value in named.items() if isfunction(value)} - {"__annotate_func__"}
    overridden = own & set(dir(driver.Consumer)) - {"on_init"}
    assert overridden <= set(FAUST_NAMES["faust.transport.drivers.aiokafka:Consumer"].split())


def test_faust_is_set_up_so_that_nothing_is_lost(app: Any) -> None:
    conf = app.conf
    assert app.transport.Consumer is GuardedConsumer
    # offsets outside the log are stopped at, never skipped
    assert conf.consumer_auto_offset_reset == "none"
    assert conf.stream_wait_empty is True
    assert conf.recovery_consistency_check is False
    assert conf.topic_allow_declare is False
    assert conf.web_tables_enabled is False
    assert str(conf.processing_guarantee.value) == "at_least_once"
    assert (conf.topic_partitions, conf.broker_max_poll_records, conf.broker_session_timeout) == (
        5,
        77,
        12.0,
    )
    assert conf.table_standby_replicas == 1
    assert conf.consumer_group_instance_id == "three"
    assert conf.PartitionAssignor is StaticAssignor
    assert [str(url) for url in conf.broker] == ["kafka://one:9092", "kafka://two:9093"]


def test_the_app_has_the_one_table_and_the_one_agent(app: Any) -> None:
    ((name, table),) = app.tables.items()
    assert (name, type(table), table.changelog_topic_name) == (
        "entities",
        CommittedTable,
        "app-entities-changelog",
    )
    assert table.partitions == 5
    (agent,) = app.agents.values()
    assert (agent.name, agent._channel_arg.topics) == ("summarize", ("reviews",))


def test_what_is_fetched_of_all_partitions_together_is_bounded(app: CoverSummApp) -> None:
    assert app.conf.consumer_max_fetch_size == fetch_bytes(5) == MAX_FETCH_BYTES
    for partitions in (16, 17, 64, 1000):
        assert MIN_FETCH_BYTES <= fetch_bytes(partitions) <= MAX_FETCH_BYTES
        assert partitions * fetch_bytes(partitions) <= MAX_FETCHED_BYTES
    assert fetch_bytes(100_000) == MIN_FETCH_BYTES
