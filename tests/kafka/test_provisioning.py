"""The worker's topics at its start: created, checked or refused, every complaint one line (a real
broker's: tests/real_kafka).
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.harness.fake_admin import ALL, SETTINGS, FakeAdmin, clients_of
from worker.errors import SetupError
from worker.kafka.topics import DELETE_RETENTION_MS, prepare_topics
from worker.state.errors import PartitionsChanged


def unexpected(cause: BaseException) -> None:
    """The worker would end later, and nobody would see why."""
    raise AssertionError(cause)


def test_missing_topics_are_created_with_the_inputs_partition_count() -> None:
    admin = FakeAdmin(reviews=6, summaries=6)
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 6
    made = {topic.topic: topic for topic in admin.made}
    assert set(made) == {"reviews.dlq", "app-entities-changelog"}
    assert {topic.num_partitions for topic in made.values()} == {6}
    assert {topic.replication_factor for topic in made.values()} == {-1}  # the broker's default
    # Never `delete`: rows would vanish. Tombstones live as long as local state is trusted.
    changelog = made["app-entities-changelog"].config
    assert changelog["cleanup.policy"] == "compact"
    assert changelog["delete.retention.ms"] == str(DELETE_RETENTION_MS)
    assert made["reviews.dlq"].config["cleanup.policy"] == "delete"


def test_topics_that_are_there_are_left_as_they_are() -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 3)
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 3
    assert admin.made == []


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("summaries", "what was published there is gone.*coversumm-worker topics"),
        ("app-entities-changelog", "the state of everything.*coversumm-worker reset"),
    ],
)
def test_a_topic_that_is_gone_under_a_group_that_has_begun_is_not_created_again(
    gone: str, words: str
) -> None:
    """An empty one in its place would pass for the whole."""
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL - {gone}, 3)
    admin.committed = [-1001, 0]
    clients = clients_of(admin)
    with pytest.raises(SetupError, match=f"topic {gone} .*{words}"):
        prepare_topics(SETTINGS, clients, unexpected)
    assert admin.made == []
    assert [asked.group for asked in clients.asked] == ["app"]


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_topic_that_may_not_be_described_is_neither_gone_nor_created(name: str) -> None:
    """The list of all topics lacks it, as if it did not exist."""
    admin = FakeAdmin()
    admin.partitions, admin.hidden, admin.committed = dict.fromkeys(ALL, 3), {name}, [7]
    with pytest.raises(SetupError, match=f"describe the topic {name} .*: allow .* --topic {name};"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)
    assert admin.made == []


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._DESTROY_BROKER])
def test_a_coordinator_that_is_away_is_asked_again(code: int) -> None:
    """Exit code 2 would say that a restart does not help."""
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL - {"reviews.dlq"}, 3)
    admin.committed = [7, 7, 7]
    admin.failures = [code] * 3
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 3
    assert admin.failures == []


def test_offsets_that_may_not_be_read_are_refused_at_once() -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL - {"reviews.dlq"}, 3)
    admin.failures = [KafkaError.GROUP_AUTHORIZATION_FAILED] * 2
    with pytest.raises(SetupError, match="could not fetch the committed offsets of the group app"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)
    assert len(admin.failures) == 1


def test_a_dead_letter_topic_that_is_gone_is_created_again() -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL - {"reviews.dlq"}, 3)
    admin.committed = [7, 7, 7]
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 3
    assert [topic.topic for topic in admin.made] == ["reviews.dlq"]


def test_a_topic_that_the_groups_first_worker_is_just_making_is_not_gone() -> None:
    admin = FakeAdmin(reviews=2)
    admin.committed = [7, 7]
    admin.others_at_second_look = dict.fromkeys(ALL, 2)
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 2


def test_a_missing_input_topic_is_refused_and_nothing_is_created() -> None:
    admin = FakeAdmin(summaries=3)
    with pytest.raises(SetupError, match=r"topic reviews does not exist: .*COVERSUMM_INPUT_TOPIC"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)
    assert admin.made == []


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("output", "summaries"),
        ("dead letters", "reviews.dlq"),
        ("changelog", "app-entities-changelog"),
    ],
)
def test_another_partition_count_is_refused(role: str, name: str) -> None:
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 4) | {name: 3}
    with pytest.raises(SetupError, match=f"{role} topic {name} has 3 partitions.* has 4"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)


@pytest.mark.parametrize("obeyed", [(), ("summaries", "reviews.dlq")])
def test_partitions_added_to_the_input_of_a_group_that_has_begun_are_reported_at_once(
    obeyed: tuple[str, ...],
) -> None:
    """That another topic has fewer is not the point, and growing it is no way out."""
    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 4) | {"reviews": 6} | dict.fromkeys(obeyed, 6)
    admin.committed = [-1001] * 6
    with pytest.raises(SetupError, match="must be equal"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)
    admin.committed = [-1001, 3] + [-1001] * 4
    with pytest.raises(PartitionsChanged) as raised:
        prepare_topics(SETTINGS, clients_of(admin), unexpected)
    message = str(raised.value)
    assert "the input topic reviews has 6 partitions, and its state was built with 4" in message
    assert "new input topic" in message
    assert "COVERSUMM_EPOCH" in message
    assert raised.value.exit_code == 2


def test_a_topic_that_another_worker_made_meanwhile_is_as_good() -> None:
    admin = FakeAdmin(reviews=2)
    admin.others = {"summaries": 2}
    assert prepare_topics(SETTINGS, clients_of(admin), unexpected) == 2


def test_a_topic_made_meanwhile_with_another_partition_count_is_refused() -> None:
    admin = FakeAdmin(reviews=2)
    admin.others = {"summaries": 1}
    with pytest.raises(SetupError, match="summaries has 1 partition,"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)


def test_a_topic_that_may_not_be_created_is_reported() -> None:
    admin = FakeAdmin(reviews=2)
    admin.refusal = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(SetupError, match="could not be created"):
        prepare_topics(SETTINGS, clients_of(admin), unexpected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policies": {}}, "app-entities-changelog has cleanup.policy=delete"),
        ({"largest": {"reviews.dlq": 2000}}, "reviews.dlq has max.message.bytes=2000"),
    ],
)
def test_a_topic_that_would_lose_state_or_stop_the_worker_ends_it(
    change: dict[str, Any], words: str
) -> None:
    ends: list[BaseException] = []
    ended = threading.Event()

    def die(cause: BaseException) -> None:
        ends.append(cause)
        ended.set()

    admin = FakeAdmin()
    admin.partitions = dict.fromkeys(ALL, 1)
    vars(admin).update(change)
    assert prepare_topics(SETTINGS, clients_of(admin), die) == 1
    assert ended.wait(10)
    assert isinstance(ends[0], SetupError)
    assert words in str(ends[0])
