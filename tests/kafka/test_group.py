"""What the members of a group hand through the broker, as Faust writes it."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata

from tests.harness.fake_clients import FakeClients
from worker.errors import Crash
from worker.kafka.group import foreign_group, read_group, subscribed_url


def subscription(url="http://worker-0.example:8080", topics=("reviews", "é")):
    about = ClientMetadata(ClientAssignment(actives={}, standbys={}), url, {})
    return ConsumerProtocolMemberMetadata(4, list(topics), about.dumps()).encode()


def test_what_is_cut_or_of_others_is_nothing():
    for cut in range(60):
        assert subscribed_url(subscription()[:cut]) is None, cut
        assert subscribed_url(b"\0\0" + b"\xff" * cut) is None, cut


def test_a_member_that_is_no_worker():
    """librdkafka's own user data, or none, or JSON of somebody else."""
    for data in (b"", b"\x00\x01", b"[]", b'{"uri": "x"}', b"7"):
        assert subscribed_url(ConsumerProtocolMemberMetadata(0, ["reviews"], data).encode()) is None


class Admin:
    """A coordinator with one member; another broker of the cluster answers, or does not."""

    def __init__(self, all_answer):
        self._all_answer = all_answer
        self.answers, self.type = True, ConsumerGroupType.CLASSIC

    def describe_consumer_groups(self, names, **_):
        given = [
            TopicPartition("reviews", 1),
            TopicPartition("log", 2),
            TopicPartition("reviews", 0),
        ]
        assignment = SimpleNamespace(topic_partitions=given)
        member = SimpleNamespace(
            member_id="m", client_id="billing", host="/10.0.0.7", assignment=assignment
        )
        described = Future()
        described.set_result(
            SimpleNamespace(members=[member], state=ConsumerGroupState.STABLE, type=self.type)
        )
        if not self.answers:
            described = Future()
            described.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {names[0]: described}

    def list_groups(self, _group, **_):
        if not self._all_answer:
            raise KafkaException(KafkaError(KafkaError._PARTIAL))
        return [SimpleNamespace(members=[SimpleNamespace(id="m", metadata=subscription())])]


def test_clients_of_another_kind_are_named():
    admin = Admin(True)
    clients = FakeClients(admin=lambda: admin)
    words = "the group g has clients that are no workers (billing at 10.0.0.7): stop them"
    assert words in str(foreign_group(clients, "g"))
    less = Crash("less")
    assert foreign_group(clients, "g", less) is less
    admin.type = ConsumerGroupType.CONSUMER
    assert words in str(foreign_group(clients, "g", less))
    admin.answers = False
    assert "could not be listed" in str(foreign_group(clients, "g"))
    assert foreign_group(clients, "g", less) is less


@pytest.mark.parametrize(
    ("all_answer", "url"), [(True, "http://worker-0.example:8080"), (False, None)]
)
def test_a_group_is_known_where_a_broker_is_away_and_addresses_are_not(all_answer, url):
    group = read_group(Admin(all_answer), "g")
    assert group == ("stable", [("m", "10.0.0.7", url, {"reviews": [0, 1], "log": [2]})])
