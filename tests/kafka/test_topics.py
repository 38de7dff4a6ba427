"""What a broker has of the worker's topics (a real broker's answers: tests/real_kafka)."""

from __future__ import annotations

import pytest

from tests.harness.fake_admin import ALL, SETTINGS, FakeAdmin, clients_of
from worker.errors import SetupError
from worker.kafka import topics as module
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import Topics, check_configs


def test_cleanup_policies_that_lose_data_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 1)
    admin.policies = dict.fromkeys(ALL, "compact")
    check_configs(Topics(SETTINGS, clients_of(admin)))
    assert caplog.messages == [
        "the input topic reviews has cleanup.policy=compact, it should be delete"
    ]
    admin.policies.clear()
    with pytest.raises(SetupError, match=r"app-entities-changelog has cleanup\.policy=delete"):
        check_configs(Topics(SETTINGS, clients_of(admin)))
    assert "summaries has cleanup.policy=delete" in caplog.messages[-1]


@pytest.mark.parametrize("name", sorted(ALL - {"reviews"}))
def test_a_topic_that_refuses_the_workers_largest_message_is_refused(name: str) -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 1)
    admin.largest = {name: SETTINGS.max_message_bytes, "reviews": 1000}
    check_configs(Topics(SETTINGS, clients_of(admin)))
    admin.largest[name] -= 1
    admin.unknown = ALL - {name}  # as a broker does not know topics that were just created
    words = f"topic {name} has max.message.bytes=999999, less than .*=1000000: set .*=1001024 on"
    with pytest.raises(SetupError, match=words):
        check_configs(Topics(SETTINGS, clients_of(admin)))


def test_an_unreachable_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.3)
    with pytest.raises(SetupError, match=r"KAFKA_BOOTSTRAP_SERVERS=127\.0\.0\.1:1 within 0\.3 s"):
        Topics(SETTINGS, KafkaClients(SETTINGS))
