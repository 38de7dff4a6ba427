"""A membership as librdkafka writes it, of a consumer that joined no group (one that did:
tests/real_kafka).
"""

from types import SimpleNamespace

import pytest

from tests.harness.fake_clients import FakeClients
from worker.errors import SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.group import Membership, check_group_metadata, group_metadata
from worker.settings import Settings

CLIENTS = KafkaClients(Settings(bootstrap_servers="127.0.0.1:1"))


@pytest.mark.parametrize("instance_id", [None, "worker-0"])
def test_the_group_metadata_is_what_confluent_kafka_makes(instance_id: str | None) -> None:
    options = {} if instance_id is None else {"group.instance.id": instance_id}
    consumer = CLIENTS.standalone_consumer("größe", "read_committed", options)
    try:
        made = bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
    assert made == group_metadata("größe", Membership(-1, "", instance_id))
    assert (b"worker-0" in made) == (instance_id is not None)
    check_group_metadata(CLIENTS, "group", instance_id)


def test_another_metadata_format_is_refused_at_start() -> None:
    other = SimpleNamespace(consumer_group_metadata=lambda: b"CGMDv3:something", close=lambda: None)
    with pytest.raises(SetupError, match="pyproject"):
        check_group_metadata(FakeClients(consumer=lambda: other), "group", "worker-0")
