"""What a worker looks at before it joins its group: Faust itself, and how the app is set up."""

from __future__ import annotations

from inspect import isfunction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker import app as module
from worker.app import CoverSummApp, _faust_app, check_faust
from worker.errors import SurroundingsError
from worker.settings import Settings
from worker.stream.consumer import GuardedConsumer


@pytest.fixture
def app(tmp_path: Path) -> CoverSummApp:
    settings = Settings(
        bootstrap_servers="one:9092, two:9093",
        input_topic="reviews",
        app_id="app",
        data_dir=tmp_path,
        batch_size=77,
        session_timeout_ms=12_000,
        standby_replicas=1,
    )
    return _faust_app(settings, 5)


def test_everything_that_is_overridden_exists_in_the_installed_faust() -> None:
    check_faust()


@pytest.mark.parametrize("place", list(module._FAUST_NAMES))
def test_a_faust_without_an_overridden_name_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._FAUST_NAMES, place, ("_a_name_of_another_version",))
    with pytest.raises(SurroundingsError, match="_a_name_of_another_version: install the version"):
        check_faust()


def test_every_method_that_the_guarded_consumer_overrides_is_checked_for() -> None:
    from faust.transport.drivers import aiokafka as driver

    own = {name for name, value in vars(GuardedConsumer).items() if isfunction(value)}
    overridden = own & set(dir(driver.Consumer)) - {"on_init"}
    assert overridden <= set(module._FAUST_NAMES["faust.transport.drivers.aiokafka:Consumer"])


def test_faust_is_set_up_so_that_nothing_is_lost(app: Any) -> None:
    conf = app.conf
    assert app.transport.Consumer is GuardedConsumer
    assert conf.consumer_auto_offset_reset == "none"  # offsets outside the log are stopped at, never skipped
    assert conf.stream_wait_empty is True
    assert conf.recovery_consistency_check is False
    assert conf.topic_allow_declare is False
    assert conf.web_tables_enabled is False
    assert str(conf.processing_guarantee.value) == "at_least_once"
    assert (conf.topic_partitions, conf.broker_max_poll_records, conf.broker_session_timeout) == (5, 77, 12.0)
    assert conf.table_standby_replicas == 1
    assert [str(url) for url in conf.broker] == ["kafka://one:9092", "kafka://two:9093"]
    assert app.input_topic_name == "reviews"


def test_a_restore_that_moves_is_progress(app: Any) -> None:
    """The watchdog must not end a restore that is merely long."""
    app.delivery = SimpleNamespace(progressed_at=0.0)
    app.metrics = SimpleNamespace(observe_restore=lambda rows, remaining: None)
    app.on_restore_progress(10, 5)
    assert app.delivery.progressed_at > 0
