"""Variables that look like settings and are not: which are named, with which suggestion."""

from __future__ import annotations

import pytest

from worker.settings import settings_by_field, unknown_settings
from worker.settings.environment import unknown_variables

KNOWN = {setting.variable for setting in settings_by_field().values()}


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("COVERSUMM_TOP_K", "COVERSUMM_K"),
        ("COVERSUMM_TOPIC", "COVERSUMM_INPUT_TOPIC"),
        ("COVERSUMM_MODEL", "COVERSUMM_EMBEDDER"),
        ("COVERSUMM_PORT", "COVERSUMM_WEB_PORT"),
        ("COVERSUMM_GROUP_ID", "COVERSUMM_APP_ID"),
        ("COVERSUMM_LEVEL", "COVERSUMM_LOG_LEVEL"),
        ("COVERSUMM_BROKERS", "KAFKA_BOOTSTRAP_SERVERS"),
        ("COVERSUMM_KAFKA_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"),
        ("KAFKA_BOOTSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVERS"),
        ("COVERSUM_K", "COVERSUMM_K"),
        ("COVERSUMMER_EPOCH", "COVERSUMM_EPOCH"),
        ("CONVERSUMM_DATA_DIR", "COVERSUMM_DATA_DIR"),
        ("coversumm_k", "COVERSUMM_K"),
        ("COVERSUMM_XYZZY", None),
    ],
)
def test_the_nearest_is_named(variable: str, nearest: str | None) -> None:
    assert unknown_variables({variable: "7", "HOME": "/"}, KNOWN) == [(variable, nearest)]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("COVERSUMM_WORKER_SERVICE_HOST", "10.0.0.1"),
        ("COVERSUMM_SERVICE_PORT", "8080"),
        ("COVERSUMM_WORKER_SERVICE_PORT_HTTP", "8080"),
        ("COVERSUMM_PORT", "tcp://10.0.0.1:8080"),
        ("COVERSUMM_WORKER_PORT", "tcp://10.0.0.1:8080"),
        ("COVERSUMM_WORKER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("COVERSUMM_WORKER_PORT_8080_TCP_PROTO", "tcp"),
        ("COVERSUMM_WORKER_PORT_8080_TCP_PORT", "8080"),
        ("COVERSUMM_WORKER_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("COVERSUMM_K", "7"),
        ("COVERSUMM_SCHEMA_REGISTRY_URL", ""),
        ("COVERAGE_FILE", "x"),
        ("COVERSUMM", "x"),
        ("COVERSUMM_", "x"),
        ("_COVERSUMM_WORKER_COMPLETE", "bash_source"),
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
    ],
)
def test_strangers_are_not_named(variable: str, value: str) -> None:
    assert unknown_variables({variable: value}, KNOWN) == []


def test_one_line_names_all_and_no_value() -> None:
    line = unknown_settings(
        {"COVERSUMM_TOP_K": "VALUE", "COVERSUM_EPOCH": "VALUE", "COVERSUMM_XYZZY": "VALUE"}
    )
    assert line == (
        "ignored, for there are no such settings: COVERSUMM_TOP_K (is it COVERSUMM_K?), "
        "COVERSUMM_XYZZY (nothing is near), "
        "COVERSUM_EPOCH (is it COVERSUMM_EPOCH?)"
    )
    assert unknown_settings({"COVERSUMM_K": "7"}) is None
