"""The consumer thread: how its consumer is set up, and that its client is one that rides through
the brokers' faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    UnknownError,
)
from faust.transport.drivers import aiokafka as driver

from tests.harness.stream import GROUP, INPUT, INSTANCE, End, Parts, make_app
from worker.errors import Fenced, SetupError
from worker.stream.faust.application import GuardedTransport
from worker.stream.faust.consumer import GuardedConsumer
from worker.stream.faust.consumer_thread import FETCH_MAX_BYTES, FETCH_MAX_WAIT_MS, ConsumerThread
from worker.stream.faust.group_client import JOIN_MARGIN_SECONDS, REQUEST_SECONDS, GroupClient


@pytest.fixture
def consumer(tmp_path: Path) -> Iterator[Any]:
    """A guarded consumer with its own thread, not started."""
    asyncio.set_event_loop(loop := asyncio.new_event_loop())  # Faust asks for the current one
    app = make_app(tmp_path, consumer_group_instance_id=INSTANCE, broker_rebalance_timeout=60.0)

    async def nothing(*_: Any, **__: Any) -> None:
        pass

    transport = GuardedTransport(app.conf.broker_consumer, app, Parts(tmp_path).worker())
    yield GuardedConsumer(transport, nothing, nothing, nothing, loop=loop)
    loop.close()


def test_the_input_is_read_committed_and_never_reset(consumer: Any) -> None:
    with_its_consumer(consumer, check_reading)
    assert consumer.in_transaction is False  # Faust's own transactions stay off


def check_reading(made: Any) -> None:
    assert made._isolation_level == "read_committed"
    assert made._auto_offset_reset == "none"
    assert made._enable_auto_commit is False
    assert made._fetch_max_wait_ms == FETCH_MAX_WAIT_MS
    assert made._fetch_max_bytes == FETCH_MAX_BYTES


def test_the_consumer_is_a_static_member_with_a_client_that_knows_it(consumer: Any) -> None:
    with_its_consumer(consumer, check_membership)


def check_membership(made: Any) -> None:
    client = made._client
    assert isinstance(client, GroupClient)
    assert (made._group_instance_id, client.instance_id, client.group_id) == (
        INSTANCE,
        INSTANCE,
        GROUP,
    )
    assert client.join_seconds == 60.0 + JOIN_MARGIN_SECONDS
    assert client._request_timeout_ms == REQUEST_SECONDS * 1000
    with pytest.raises(End) as end:
        client.on_fenced()
    assert isinstance(end.value.cause, Fenced)
    assert f"{INSTANCE} in the group {GROUP}" in str(end.value.cause)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GroupAuthorizationFailedError("tests"), f"READ on the group {GROUP}"),
        (InvalidSessionTimeoutError(), "refuses COVERSUMM_SESSION_TIMEOUT_MS=10000"),
        (InconsistentGroupProtocolError(), f"the group {GROUP} has clients that are no workers"),
    ],
)
def test_a_group_that_may_not_be_joined_says_what_to_do(
    consumer: Any, error: KafkaError, words: str
) -> None:
    async def push() -> None:
        await consumer._thread._end_with(error)

    with pytest.raises(End) as end:
        asyncio.run(push())
    assert isinstance(end.value.cause, SetupError)
    assert words in str(end.value.cause)
    consumer._thread.thread_loop.close()


@pytest.mark.parametrize("ending", [False, True], ids=["running", "stopping"])
def test_what_the_coordination_cannot_continue_after_ends_the_worker(
    consumer: Any, ending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is ending anyway: then it continues ending."""
    refused = UnknownError("tests")

    async def start(thread: Any) -> None:
        subscription = SubscriptionState(loop=asyncio.get_running_loop())
        thread._consumer = made = thread._create_worker_consumer(consumer.transport)
        made._coordinator = GroupCoordinator(made._client, subscription)

    async def push() -> None:
        thread = consumer._thread
        await thread.on_start()
        try:
            await thread._consumer._coordinator._push_error_to_user(refused)
        finally:
            await thread._consumer.stop()

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "on_start", start)
    monkeypatch.setattr(consumer.app, "_stopped", SimpleNamespace(is_set=lambda: ending))
    if ending:
        asyncio.run(push())
    else:
        with pytest.raises(End) as end:
            asyncio.run(push())
        assert end.value.cause is refused
    consumer._thread.thread_loop.close()


@pytest.mark.parametrize(
    ("has_owners", "partitions", "joins"),
    [(False, {0, 1}, 1), (False, None, 0), (False, set(), 0), (True, {0, 1}, 0)],
)
def test_an_input_that_nobody_has_is_joined_for_once_it_exists(
    consumer: Any, has_owners: bool, partitions: set[int] | None, joins: int
) -> None:
    """A leader that restarted as a static member does not know that it leads, so nobody waits for
    the topic."""
    topics = {INPUT: partitions}
    cluster = SimpleNamespace(listeners=[], partitions_for_topic=topics.get)
    cluster.add_listener = cluster.listeners.append
    rejoins: list[None] = []
    coordinator = SimpleNamespace(request_rejoin=lambda: rejoins.append(None))
    thread = consumer._thread
    thread._consumer = SimpleNamespace(
        _coordinator=coordinator, _client=SimpleNamespace(cluster=cluster)
    )
    thread.watch_input()
    consumer.group_assigned(has_owners)
    for listener in cluster.listeners:
        listener(cluster)
    assert len(rejoins) == joins
    consumer._thread.thread_loop.close()


def with_its_consumer(consumer: Any, check: Any) -> None:
    """Let the thread make its aiokafka consumer, and check that."""
    thread = consumer._thread
    assert isinstance(thread, ConsumerThread)

    async def look() -> None:
        made = thread._create_worker_consumer(consumer.transport)
        try:
            check(made)
        finally:
            await made.stop()

    asyncio.run(look())
    thread.thread_loop.close()
