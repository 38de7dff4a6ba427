"""Topic ids on the embedded broker, which tells none, and what answers come to (on a real broker: tests/real_kafka)."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.embedded import embedded_broker
from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash
from worker.kafka.clients import KafkaClients
from worker.kafka.topic_ids import NO_ID, TopicIds
from worker.settings import Settings
from worker.state.errors import PartitionsChanged

__all__ = ["embedded_broker"]


class FakeAdmin:
    """A broker's answers, one after the other; the last one is given again and again."""

    def __init__(self, *answers: dict[str, str] | int) -> None:
        self.answers = list(answers)
        self.partitions = 4

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(controller_id=1, brokers={1: object()})

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        futures: dict[str, Future[Any]] = {name: Future() for name in topics.topic_names}
        for name, future in futures.items():
            if isinstance(answer, int):
                future.set_exception(KafkaException(KafkaError(answer)))
            else:
                future.set_result(SimpleNamespace(topic_id=answer[name], partitions=[None] * self.partitions))
        return futures


def asking(*answers: dict[str, str] | int) -> TopicIds:
    clients = FakeClients(admin=lambda: FakeAdmin(*answers))
    return TopicIds(clients, ("in", "changelog"), {"in": 4}, 1.0, FakeClock())


def test_a_topic_that_was_made_anew_is_noticed() -> None:
    one = {"in": "a", "changelog": "b"}
    ids = asking(one, one, {"in": "a", "changelog": "c"})
    ids.read()
    assert (ids.known("in"), ids.known("changelog")) == ("a", "b")
    ids.check()
    with pytest.raises(Crash, match="changelog was deleted and created again"):
        ids.check()
    with pytest.raises(Crash, match="changelog was deleted and created again"):
        ids.read()  # not by a takeover either: a worker may have lost its partitions when the topic went


def test_a_suspect_client_is_replaced_and_what_is_known_stays() -> None:
    made: list[FakeAdmin] = []

    def admin() -> FakeAdmin:
        made.append(FakeAdmin({"in": "a", "changelog": "b"}))
        return made[-1]

    ids = TopicIds(FakeClients(admin=admin), ("in", "changelog"), {"in": 4}, 1.0, FakeClock())
    ids.read()
    made[0].answers = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    ids.suspect()
    ids.check()
    assert len(made) == 2
    made[1].answers = [{"in": "other", "changelog": "b"}]
    with pytest.raises(Crash, match="in was deleted and created again"):
        ids.check()


def test_a_topic_that_is_gone_is_a_crash() -> None:
    ids = asking({"in": "a", "changelog": "b"}, KafkaError.UNKNOWN_TOPIC_OR_PART)
    ids.read()
    with pytest.raises(Crash, match="a topic is gone"):
        ids.check()


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT])
def test_a_broker_that_does_not_know_its_topics_yet_or_is_just_away_is_asked_again(
    code: int,
) -> None:
    one = {"in": "a", "changelog": "b"}
    ids = asking(code, one, code, one)
    ids.read()
    ids.check()


def test_a_broker_that_does_not_answer_is_a_crash() -> None:
    with pytest.raises(Crash, match="does not tell the ids of in, changelog"):
        asking(KafkaError._TIMED_OUT).read()


def test_a_broker_older_than_ids_tells_none() -> None:
    ids = asking({"in": NO_ID, "changelog": NO_ID})
    ids.read()
    assert (ids.known("in"), ids.known("changelog")) == ("", "")
    ids.check()


def test_the_embedded_broker_tells_none_and_takes_no_time_for_it(embedded_broker: Any) -> None:
    embedded_broker.create_topic("in", 1)
    clients = KafkaClients(Settings(bootstrap_servers=embedded_broker.bootstrap_servers))
    ids = TopicIds(clients, ("in",), {"in": 1}, PATIENCE_SECONDS)
    started = time.monotonic()
    ids.read()
    ids.check()
    assert ids.known("in") == ""
    assert ids.tombstone_life_ms("in") is None
    assert time.monotonic() - started < PATIENCE_SECONDS  # as long as it would wait for an answer


def test_partitions_added_to_the_input_are_refused() -> None:
    """Between two commits too: keys move at once, among the partitions that a worker has as well."""
    admin = FakeAdmin({"in": "a", "changelog": "b"})
    ids = TopicIds(FakeClients(admin=lambda: admin), ("in", "changelog"), {"in": 4}, 1.0, FakeClock())
    ids.read()
    ids.check()
    admin.partitions = 6
    for look in (ids.check, ids.read):
        with pytest.raises(
            PartitionsChanged, match=r"topic in has 6 partitions, .* built with 4: .*new input topic"
        ) as raised:
            look()
        assert raised.value.exit_code == 2
