"""What the members of a group hand through the broker, as Faust writes it."""

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata

from worker.kafka.group import assigned_partitions, subscribed_url


def subscription(url="http://worker-0.example:8080", topics=("reviews", "é")):
    about = ClientMetadata(ClientAssignment(actives={}, standbys={}), url, {})
    return ConsumerProtocolMemberMetadata(4, list(topics), about.dumps()).encode()


ASSIGNMENT = ConsumerProtocolMemberAssignment(
    4, [("changelog", [3, 0]), ("réviews", [0])], b"zipped"
).encode()


def test_the_address_a_worker_tells():
    assert subscribed_url(subscription()) == "http://worker-0.example:8080"
    assert subscribed_url(subscription(topics=())) == "http://worker-0.example:8080"


def test_partitions_that_were_given():
    assert assigned_partitions(ASSIGNMENT) == {"changelog": [0, 3], "réviews": [0]}
    assert assigned_partitions(b"") == {}, "while the group is being balanced"


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_what_is_cut_or_of_others_is_nothing(cut):
    assert subscribed_url(subscription()[: cut + 1]) is None
    assert assigned_partitions(ASSIGNMENT[: min(cut, 37)]) in ({}, {"changelog": [0, 3], "réviews": [0]})
    assert subscribed_url(b"\0\0" + b"\xff" * cut) is None
    assert assigned_partitions(b"\0\0\x7f\xff\xff\xff" + b"\0" * cut) == {}


def test_a_member_that_is_no_worker():
    """librdkafka's own user data, or none, or JSON of somebody else."""
    for data in (b"", b"\x00\x01", b"[]", b'{"uri": "x"}', b"7"):
        assert subscribed_url(ConsumerProtocolMemberMetadata(0, ["reviews"], data).encode()) is None
