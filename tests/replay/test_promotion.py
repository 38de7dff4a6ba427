"""The checks of `promote` one by one, against a broker in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.harness.embedded import EmbeddedBroker, embedded_broker
from tests.harness.patience import PATIENCE_SECONDS
from tests.view.changes import body, facets_body
from worker.kafka.clients import KafkaClients
from worker.kafka.group import EMPTY, REBALANCING, STABLE, GroupMember, WorkerGroup
from worker.published.comparison import Comparison, compare
from worker.replay.promotion import Promotion, PromotionCheck, _agrees
from worker.settings import Settings

__all__ = ["embedded_broker"]  # a fixture


@pytest.fixture
def promotion(embedded_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> Promotion:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setenv("COVERSUMM_FACETS", "preset:stays")
    present = Settings.from_environment()
    following = replace(present, app_id="next", output_topic="next.summaries")
    for topic in (present.input_topic, present.output_topic, present.facets_topic):
        embedded_broker.create_topic(topic, 2)
    for topic in ("next.summaries", "next.facets"):
        embedded_broker.create_topic(topic, 2)
    return Promotion(present, following, KafkaClients(present), "next.facets")


def commit(settings: Settings, offsets: Mapping[int, int]) -> None:
    places = [TopicPartition(settings.input_topic, at, offset) for at, offset in offsets.items()]
    servers = {"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.app_id}
    consumer = Consumer(servers)
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("reached", "behind"),
    [
        ({0: 7, 1: 3}, None),
        ({0: 8, 1: 9}, None),
        ({0: 6, 1: 3}, "partition 0 by 1 record"),
        ({0: 7}, "partition 1 by 3 records"),
    ],
)
def test_a_build_that_lacks_one_record_has_not_caught_up(
    promotion: Promotion, reached: dict[int, int], behind: str | None
) -> None:
    commit(promotion.present, {0: 7, 1: 3})
    commit(promotion.next, reached)
    check = promotion._has_caught_up(0.0)
    assert check.passed is (behind is None)
    assert behind is None or check.found == f"it is behind coversumm-worker: {behind}"


NOT_STARTED = "start `coversumm-worker run` with its settings"


@pytest.mark.parametrize(
    ("seen", "wait_seconds", "passed", "found"),
    [
        ([(REBALANCING, 2), (REBALANCING, 1), (STABLE, 1)], 30.0, True, "1 worker"),
        ([(REBALANCING, 1), (EMPTY, 0)], 30.0, False, NOT_STARTED),
        ([(REBALANCING, 1)], 0.0, False, "run this command again when it is stable"),
        ([(STABLE, 0)], 30.0, False, NOT_STARTED),
    ],
)
def test_a_rebalance_is_waited_for(
    promotion: Promotion,
    monkeypatch: pytest.MonkeyPatch,
    seen: list[tuple[str, int]],
    wait_seconds: float,
    passed: bool,
    found: str,
) -> None:
    member = GroupMember("m", "/127.0.0.1", None, {})
    groups = iter([WorkerGroup(state, [member] * count) for state, count in seen])
    monkeypatch.setattr("worker.replay.promotion.read_group", lambda *_: next(groups))
    monkeypatch.setattr("worker.replay.promotion.PAUSE_SECONDS", 0.0)
    check = promotion._is_running(wait_seconds)
    assert (check.passed, check.found.endswith(found), [*groups]) == (passed, True, []), check


def publish(promotion: Promotion, messages: Mapping[str, bytes]) -> None:
    producer = promotion.clients.producer({})
    for topic, value in messages.items():
        producer.produce(topic, value, b"e", 0)
    assert producer.flush(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    ("present", "summaries", "facets", "is_own"),
    [(1, 2, 2, True), (1, 1, 2, False), (1, 2, 1, False), (2, 3, 2, False)],
)
def test_facets_have_an_epoch_of_their_own_too(
    promotion: Promotion, present: int, summaries: int, facets: int, is_own: bool
) -> None:
    def of_epoch(value: bytes, epoch: int) -> bytes:
        return value.replace(b'"epoch":1', b'"epoch":%d' % epoch)

    summary, of_facets = body("e", 3, {}), facets_body("e", 3, {"parking": {}}, previous=None)
    publish(
        promotion,
        {
            promotion.present.output_topic: of_epoch(summary, 1),
            promotion.present.facets_topic: of_epoch(of_facets, present),
            "next.summaries": of_epoch(summary, summaries),
            "next.facets": of_epoch(of_facets, facets),
        },
    )
    check = promotion._has_own_epoch()
    assert check.passed is is_own
    assert check.found.endswith(f"{summaries} in next.summaries, {facets} in next.facets")


@pytest.mark.parametrize("bound", [None, 0.0, 5.0])
def test_a_build_without_any_summary_is_not_promoted(bound: float | None) -> None:
    def allowed(_: Comparison) -> Any:
        return bound

    assert _agrees(compare([], []), allowed) == PromotionCheck(
        "it says what it should", False, "there is no summary in either topic"
    )
