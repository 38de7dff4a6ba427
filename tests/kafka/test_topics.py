"""The worker's topics: found, created and checked, every complaint one line (a real broker's answers: tests/real_kafka)."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SurroundingsError
from worker.kafka import topics as module
from worker.kafka.topics import DELETE_RETENTION_MS, Topics, prepare_topics
from worker.settings import Settings

SETTINGS = Settings(
    bootstrap_servers="127.0.0.1:1",
    input_topic="reviews",
    output_topic="summaries",
    app_id="app",
    data_dir=Path("unused"),
)
ALL = {"reviews", "summaries", "reviews.dlq", "app-entities-changelog"}


class FakeAdmin:
    """A broker's topics; `others` are made by somebody else in the moment before ours."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = {name.replace("_", "."): count for name, count in partitions.items()}
        self.policies = {"summaries": "compact", "app-entities-changelog": "compact"}
        self.made: list[Any] = []
        self.others: dict[str, int] = {}
        self.others_at_second_look: dict[str, int] = {}
        self.committed: list[int] = []
        self.looks = 0
        self.refusal: int | None = None

    def list_topics(self, timeout: float) -> Any:
        self.looks += 1
        if self.looks == 2:
            self.partitions |= self.others_at_second_look
        topics = {
            name: SimpleNamespace(partitions=dict.fromkeys(range(count)), error=None)
            for name, count in self.partitions.items()
        }
        topics["broken"] = SimpleNamespace(partitions={}, error="no leader")
        return SimpleNamespace(topics=topics)

    def create_topics(self, new: list[Any], operation_timeout: float) -> dict[str, Future[None]]:
        self.made += new
        self.partitions |= self.others
        return {topic.topic: self._create(topic) for topic in new}

    def _create(self, topic: Any) -> Future[None]:
        future: Future[None] = Future()
        if self.refusal is not None:
            future.set_exception(KafkaException(KafkaError(self.refusal)))
        elif topic.topic in self.partitions:
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
        else:
            self.partitions[topic.topic] = topic.num_partitions
            future.set_result(None)
        return future

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        found = {}
        for resource in resources:
            found[resource] = Future[Any]()
            config = defaultdict(lambda: SimpleNamespace(value="1"))
            config["cleanup.policy"] = SimpleNamespace(value=self.policies.get(resource.name, "delete"))
            found[resource].set_result(config)
        return found


class FakeGroup:
    """The worker group's committed offsets, as a consumer of it sees them."""

    def __init__(self, admin: FakeAdmin, config: dict[str, Any]) -> None:
        assert config["group.id"] == "app"
        self._committed = admin.committed

    def committed(self, asked: list[Any], timeout: float) -> list[Any]:
        offsets = self._committed + [-1001] * len(asked)
        return [SimpleNamespace(partition=tp.partition, offset=offsets[tp.partition]) for tp in asked]

    def close(self) -> None:
        pass


def on(monkeypatch: pytest.MonkeyPatch, admin: FakeAdmin) -> FakeAdmin:
    monkeypatch.setattr(module, "AdminClient", lambda config, logger: admin)
    monkeypatch.setattr(module, "Consumer", lambda config: FakeGroup(admin, config))
    return admin


def unexpected(cause: BaseException) -> None:
    """The worker would end later, and nobody would see why."""
    raise AssertionError(cause)


def test_missing_topics_are_created_with_the_inputs_partition_count(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin(reviews=6, summaries=6))
    assert prepare_topics(SETTINGS, unexpected) == 6
    made = {topic.topic: topic for topic in admin.made}
    assert set(made) == {"reviews.dlq", "app-entities-changelog"}
    assert {topic.num_partitions for topic in made.values()} == {6}
    assert {topic.replication_factor for topic in made.values()} == {-1}  # the broker's default
    # Never `delete`: rows would vanish. Tombstones live as long as local state is trusted.
    changelog = made["app-entities-changelog"].config
    assert changelog["cleanup.policy"] == "compact"
    assert changelog["delete.retention.ms"] == str(DELETE_RETENTION_MS)
    assert made["reviews.dlq"].config["cleanup.policy"] == "delete"


def test_topics_that_are_there_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL, 3)
    assert prepare_topics(SETTINGS, unexpected) == 3
    assert admin.made == []


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("summaries", "what was published there is gone.*coversumm-worker topics"),
        ("app-entities-changelog", "the state of everything.*coversumm-worker reset"),
    ],
)
def test_a_topic_that_is_gone_under_a_group_that_has_begun_is_not_made_anew(
    monkeypatch: pytest.MonkeyPatch, gone: str, words: str
) -> None:
    """An empty one in its place would pass for the whole."""
    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL - {gone}, 3)
    admin.committed = [-1001, 0]
    with pytest.raises(SurroundingsError, match=f"topic {gone} .*{words}"):
        prepare_topics(SETTINGS, unexpected)
    assert admin.made == []


def test_a_dead_letter_topic_that_is_gone_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL - {"reviews.dlq"}, 3)
    admin.committed = [7, 7, 7]
    assert prepare_topics(SETTINGS, unexpected) == 3
    assert [topic.topic for topic in admin.made] == ["reviews.dlq"]


def test_a_topic_that_the_groups_first_worker_is_just_making_is_not_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = on(monkeypatch, FakeAdmin(reviews=2))
    admin.committed = [7, 7]
    admin.others_at_second_look = dict.fromkeys(ALL, 2)
    assert prepare_topics(SETTINGS, unexpected) == 2


def test_a_missing_input_topic_is_refused_and_nothing_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin(summaries=3))
    with pytest.raises(SurroundingsError, match=r"topic reviews does not exist: .*COVERSUMM_INPUT_TOPIC"):
        prepare_topics(SETTINGS, unexpected)
    assert admin.made == []


@pytest.mark.parametrize(
    ("role", "name"),
    [("output", "summaries"), ("dead letters", "reviews.dlq"), ("changelog", "app-entities-changelog")],
)
def test_another_partition_count_is_refused(monkeypatch: pytest.MonkeyPatch, role: str, name: str) -> None:
    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL, 4) | {name: 3}
    with pytest.raises(SurroundingsError, match=f"{role} topic {name} has 3 partitions.* has 4"):
        prepare_topics(SETTINGS, unexpected)


def test_a_topic_that_another_worker_made_meanwhile_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin(reviews=2))
    admin.others = {"summaries": 2}
    assert prepare_topics(SETTINGS, unexpected) == 2


def test_a_topic_made_meanwhile_with_another_partition_count_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = on(monkeypatch, FakeAdmin(reviews=2))
    admin.others = {"summaries": 1}
    with pytest.raises(SurroundingsError, match="summaries has 1 partitions"):
        prepare_topics(SETTINGS, unexpected)


def test_a_topic_that_may_not_be_created_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin(reviews=2))
    admin.refusal = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(SurroundingsError, match="could not be created"):
        prepare_topics(SETTINGS, unexpected)


def test_cleanup_policies_that_lose_data_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL, 1)
    admin.policies = dict.fromkeys(ALL, "compact")
    assert Topics(SETTINGS).check_policies() == {
        "input": "the input topic reviews has cleanup.policy=compact, it should be delete"
    }
    admin.policies.clear()
    complaints = Topics(SETTINGS).check_policies()
    assert set(complaints) == {"output", "changelog"}
    assert "summaries" in complaints["output"]


def test_a_changelog_that_forgets_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[BaseException] = []
    ended = threading.Event()

    def die(cause: BaseException) -> None:
        ends.append(cause)
        ended.set()

    admin = on(monkeypatch, FakeAdmin())
    admin.partitions = dict.fromkeys(ALL, 1)
    admin.policies.clear()
    assert prepare_topics(SETTINGS, die) == 1
    assert ended.wait(PATIENCE_SECONDS)
    assert isinstance(ends[0], SurroundingsError)
    assert "app-entities-changelog has cleanup.policy=delete" in str(ends[0])


def test_an_unreachable_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METADATA_TIMEOUT_SECONDS", 0.3)
    with pytest.raises(SurroundingsError, match=r"KAFKA_BOOTSTRAP_SERVERS=127\.0\.0\.1:1 within 0\.3 s"):
        Topics(SETTINGS)
