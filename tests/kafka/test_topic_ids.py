"""Topic ids on the embedded broker, which tells none, and what answers come to (on a real broker:
tests/real_kafka).
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.embedded import embedded_broker
from tests.harness.fake_clients import FakeClients, FakeClock
from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import Crash, SetupError, Unanswered
from worker.kafka.clients import KafkaClients
from worker.kafka.errors import RETRIABLE
from worker.kafka.topic_ids import NO_ID, TopicIds
from worker.settings import Settings
from worker.state.errors import PartitionsChanged

__all__ = ["embedded_broker"]


class FakeAdmin:
    """A broker's answers, one after the other; the last one is given again and again."""

    def __init__(self, *answers: dict[str, str] | int | None) -> None:
        self.answers = list(answers)
        self.partitions = 4

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(cluster_id="one", controller_id=-1, brokers={})

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        futures: dict[str, Future[Any]] = {name: Future() for name in topics.topic_names}
        for name, future in futures.items():
            if answer is None:
                future.set_exception(TimeoutError())  # as `result` raises it
            elif isinstance(answer, int):
                future.set_exception(KafkaException(KafkaError(answer)))
            else:
                future.set_result(
                    SimpleNamespace(topic_id=answer[name], partitions=[None] * self.partitions)
                )
        return futures


def asking(*answers: dict[str, str] | int | None) -> TopicIds:
    admin = FakeAdmin(*answers)
    clients = FakeClients(admin=lambda: admin)
    return TopicIds(clients, ("in", "changelog"), {"in": 4}, 1.0, FakeClock())


def check(ids: TopicIds) -> None:
    ids.ask_ahead(ids.topics)()


def test_what_is_asked_ahead_is_waited_for_later_and_asked_again_where_it_got_lost() -> None:
    known = {"in": "a", "changelog": "b"}
    ids = asking(known, known, KafkaError._TRANSPORT, known, {"in": "x", "changelog": "y"})
    ids.read()
    ids.ask_ahead(["in"])()
    ids.ask_ahead(["in"])()
    other = ids.ask_ahead(["changelog"])
    with pytest.raises(Crash, match="changelog was deleted and created again"):
        other()


def test_a_topic_that_was_created_again_is_noticed() -> None:
    known = {"in": "a", "changelog": "b"}
    ids = asking(known, known, {"in": "a", "changelog": "c"})
    ids.read()
    assert (ids.known("in"), ids.known("changelog")) == ("a", "b")
    check(ids)
    with pytest.raises(Crash, match="changelog was deleted and created again"):
        check(ids)
    with pytest.raises(Crash, match="changelog was deleted and created again"):
        # not by a takeover either: a worker may have lost its partitions when the topic went
        ids.read()


def test_an_answer_that_does_not_come_is_asked_for_over_new_connections() -> None:
    """A commit waits for it; the connection on which it got lost may be silent for long."""
    made: list[FakeAdmin] = []

    def admin() -> FakeAdmin:
        lost = [] if made else [KafkaError._TIMED_OUT]
        made.append(FakeAdmin(*lost, {"in": "a", "changelog": "b"}))
        return made[-1]

    ids = TopicIds(FakeClients(admin=admin), ("in", "changelog"), {"in": 4}, 25.0, FakeClock())
    ids.read()
    assert ids.known("in") == "a"
    assert len(made) == 2


class Replaced(FakeAdmin):
    """A client in whose place another one comes while it is asked, and whose questions
    end with it.
    """

    def __init__(self, replace: Callable[[], None]) -> None:
        super().__init__({"in": "a", "changelog": "b"})
        self.replace = replace

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Any]:
        answers, me = super().describe_topics(topics, request_timeout), weakref.ref(self)
        self.replace()

        def result(future: Future[Any]) -> Any:
            if me() is None:
                raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
            return future.result()

        return {
            name: SimpleNamespace(result=lambda _, future=future: result(future))
            for name, future in answers.items()
        }


def test_a_client_that_is_replaced_while_it_is_asked_is_kept_until_it_has_answered() -> None:
    """librdkafka ends the questions of a client that is collected."""
    ids: list[TopicIds] = []
    clients = FakeClients(admin=lambda: Replaced(lambda: ids[0].suspect()))
    ids.append(TopicIds(clients, ("in", "changelog"), {"in": 4}, 25.0, FakeClock()))
    ids[0].read()
    assert ids[0].known("in") == "a"


def test_a_suspect_client_is_replaced_and_what_is_known_stays() -> None:
    made: list[FakeAdmin] = []

    def admin() -> FakeAdmin:
        made.append(FakeAdmin({"in": "a", "changelog": "b"}))
        return made[-1]

    ids = TopicIds(FakeClients(admin=admin), ("in", "changelog"), {"in": 4}, 1.0, FakeClock())
    ids.read()
    made[0].answers = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    ids.suspect()
    check(ids)
    assert len(made) == 2
    made[1].answers = [{"in": "other", "changelog": "b"}]
    with pytest.raises(Crash, match="in was deleted and created again"):
        check(ids)


def test_a_topic_that_is_gone_is_a_crash() -> None:
    ids = asking({"in": "a", "changelog": "b"}, KafkaError.UNKNOWN_TOPIC_OR_PART)
    ids.read()
    with pytest.raises(Crash, match="the topic in is gone"):
        check(ids)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT])
def test_a_broker_that_does_not_know_its_topics_yet_or_is_just_away_is_asked_again(
    code: int,
) -> None:
    known = {"in": "a", "changelog": "b"}
    ids = asking(code, known, code, known)
    ids.read()
    check(ids)


@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_a_broker_that_is_away_for_longer_has_not_answered(code: int) -> None:
    with pytest.raises(Unanswered, match="could not fetch the ids of in, changelog"):
        asking(code).read()


def test_an_answer_that_does_not_come_at_all_is_none() -> None:
    with pytest.raises(Unanswered, match="could not fetch the ids of in, changelog"):
        asking(None).read()


def test_a_broker_that_refuses_to_tell_is_a_crash() -> None:
    words = r"could not describe the topic in \(TOPIC_AUTHORIZATION_FAILED"
    with pytest.raises(Crash, match=words) as crash:
        asking(KafkaError.TOPIC_AUTHORIZATION_FAILED).read()
    assert not isinstance(crash.value, Unanswered)


def test_a_cluster_without_a_controller_is_asked_until_it_has_one() -> None:
    """librdkafka times out where the metadata names no controller. Its topics have ids all the
    same: the checks of a takeover need them.
    """
    known = {"in": "a", "changelog": "b"}
    ids = asking(KafkaError._TIMED_OUT, known, {"in": "x", "changelog": "b"})
    ids.read()
    assert ids.known("in") == "a"
    with pytest.raises(Crash, match="in was deleted and created again"):
        check(ids)


def test_an_id_that_a_broker_learns_later_is_compared_from_then_on() -> None:
    """As after an upgrade of the brokers."""
    old, known = {"in": NO_ID, "changelog": NO_ID}, {"in": "a", "changelog": "b"}
    ids = asking(old, known, old, known, {"in": "x", "changelog": "b"})
    ids.read()
    assert ids.known("in") == ""
    for _ in range(3):
        check(ids)
        assert ids.known("in") == "a"
    with pytest.raises(Crash, match="in was deleted and created again"):
        check(ids)


def test_the_embedded_broker_tells_none_and_takes_no_time_for_it(embedded_broker: Any) -> None:
    embedded_broker.create_topic("in", 1)
    clients = KafkaClients(Settings(bootstrap_servers=embedded_broker.bootstrap_servers))
    ids = TopicIds(clients, ("in",), {"in": 1}, PATIENCE_SECONDS)
    started = time.monotonic()
    ids.read()
    check(ids)
    assert ids.known("in") == ""
    assert ids.tombstone_life_ms("in") == sys.maxsize  # it compacts nothing
    assert time.monotonic() - started < PATIENCE_SECONDS  # as long as it would wait for an answer


def test_partitions_added_to_the_input_are_refused() -> None:
    """Between two commits too: keys move at once, also among the partitions that a worker has."""
    admin = FakeAdmin({"in": "a", "changelog": "b"})
    ids = TopicIds(
        FakeClients(admin=lambda: admin), ("in", "changelog"), {"in": 4}, 1.0, FakeClock()
    )
    ids.read()
    check(ids)
    admin.partitions = 6
    for look in (lambda: check(ids), ids.read):
        with pytest.raises(
            PartitionsChanged,
            match=r"topic in has 6 partitions, .* built with 4: .*new input topic",
        ) as raised:
            look()
        assert raised.value.exit_code == 2


def test_a_topic_that_a_plan_was_made_for_is_the_only_one() -> None:
    """At the first look and at each later one; an id that nobody tells refuses nothing."""
    clock = FakeClock()

    def ids(planned: str, *answers: dict[str, str]) -> TopicIds:
        admin = FakeAdmin(*answers)
        clients = FakeClients(admin=lambda: admin)
        return TopicIds(clients, ("in", "changelog"), {}, 1.0, clock, planned={"in": planned})

    one, two = {"in": "one", "changelog": "c"}, {"in": "two", "changelog": "c"}
    with pytest.raises(
        SetupError,
        match=r"the topic in has the id two, and the plan .* id one: .* `coversumm-worker reset`",
    ):
        ids("one", two).read()
    later = ids("one", one, two)
    later.read()
    with pytest.raises(SetupError, match="has the id two"):
        later.read()
    ids("", two).read()
    ids("one", {"in": NO_ID, "changelog": NO_ID}).read()
