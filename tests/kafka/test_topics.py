"""What a broker has of the worker's topics (a real broker's answers: tests/real_kafka)."""

from __future__ import annotations

import pytest

from tests.harness.fake_admin import ALL, SETTINGS, FakeAdmin, clients_of
from worker.errors import SetupError
from worker.kafka import topics as module
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import Topics


def test_cleanup_policies_that_lose_data_are_reported() -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 1)
    admin.policies = dict.fromkeys(ALL, "compact")
    assert Topics(SETTINGS, clients_of(admin)).check_policies() == {
        "input": "the input topic reviews has cleanup.policy=compact, it should be delete"
    }
    admin.policies.clear()
    complaints = Topics(SETTINGS, clients_of(admin)).check_policies()
    assert set(complaints) == {"output", "changelog"}
    assert "summaries" in complaints["output"]


def test_an_unreachable_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METADATA_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(SetupError, match=r"KAFKA_BOOTSTRAP_SERVERS=127\.0\.0\.1:1 within 0\.3 s"):
        Topics(SETTINGS, KafkaClients(SETTINGS))
