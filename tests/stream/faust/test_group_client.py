"""The consumer's client: how long each kind of request waits, who is asked meanwhile, and what a
static member says of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import client as aiokafka_client
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError, RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from aiokafka.util import wait_for

from tests.harness.simulated_loop import run_simulated
from worker.credentials.files import kafka_login
from worker.settings import Settings
from worker.stream.faust import group_client as module
from worker.stream.faust.group_client import (
    FETCH_SECONDS,
    REQUEST_SECONDS,
    GroupClient,
    as_group_client,
)

NODE, OTHER = 1, 2
HEARTBEAT = HeartbeatRequest("group", 7, "member")
JOIN = JoinGroupRequest("group", 10_000, 60_000, "", "worker-0", "consumer", [])
SYNC = SyncGroupRequest("group", 7, "member", "worker-0", [])
FETCH = FetchRequest(100, 1, 1000, 1, [])
FIND = FindCoordinatorRequest("group", 0)
GOOD = SimpleNamespace(error_code=0)

Answer = Callable[[Any], Any]


def named(node_id: int, error_code: int = 0) -> Any:
    """Who the coordinator is."""
    return SimpleNamespace(error_code=error_code, coordinator_id=node_id)


class Connection:
    """To a broker that answers with what the function returns, or never where that is None."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._request_timeout = REQUEST_SECONDS
        self.sent: list[tuple[Any, float]] = []
        self.closed: list[Any] = []
        self._waiting: list[asyncio.Future[Any]] = []

    def connected(self) -> bool:
        return not self.closed

    def send(self, request: Any) -> Any:
        self.sent.append((request, self._request_timeout))
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if (result := self._answer(request)) is not None:
            answer.set_result(result)
        return wait_for(answer, self._request_timeout)

    def close(self, reason: Any) -> None:
        self.closed.append(reason)
        for answer in self._waiting:
            if not answer.done():
                answer.set_exception(KafkaConnectionError("closed"))


class Fenced(Exception):
    """What the test's worker ends with."""


def group_client(join_seconds: float = 65.0, instance_id: str | None = "worker-0") -> GroupClient:
    """A client that knows two brokers and is connected to none."""

    def fenced() -> None:
        raise Fenced

    client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1", loop=asyncio.get_running_loop())
    seconds = join_seconds - module.JOIN_MARGIN_SECONDS
    as_group_client(client, "group", instance_id, seconds, fenced, kafka_login(Settings()))
    assert isinstance(client, GroupClient)
    return client


def connect(
    client: GroupClient, answer: Answer, node: int = NODE, group: int = ConnectionGroup.COORDINATION
) -> Connection:
    client._conns[node, group] = made = Connection(answer)
    return made


def now() -> float:
    """Simulated seconds since the test began."""
    return asyncio.get_running_loop().time()


# -- how long --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        (HEARTBEAT, REQUEST_SECONDS),
        (FIND, REQUEST_SECONDS),
        (FETCH, FETCH_SECONDS),
        (JOIN, 65.0),
        (SYNC, 65.0),
    ],
    ids=["heartbeat", "coordinator", "fetch", "join", "sync"],
)
async def test_each_kind_of_request_waits_as_long_as_its_answer_may_take(
    request_: Any, seconds: float
) -> None:
    client = group_client()
    connect(client, lambda _: named(NODE), group=ConnectionGroup.DEFAULT)
    connection = connect(client, lambda _: GOOD)
    assert await client.send(NODE, request_, group=ConnectionGroup.COORDINATION) is GOOD
    assert [waits for _, waits in connection.sent] == [seconds]
    # of what aiokafka sends past this client: metadata
    assert connection._request_timeout == REQUEST_SECONDS


def test_a_connection_without_an_answer_is_given_up() -> None:
    async def send() -> None:
        client = group_client()
        connection = connect(client, lambda _: None)
        with pytest.raises(RequestTimedOutError):
            await client.send(NODE, HEARTBEAT, group=ConnectionGroup.COORDINATION)
        assert now() == REQUEST_SECONDS
        assert connection.closed

    run_simulated(send())


async def test_a_node_that_cannot_be_reached_is_an_error_that_is_tried_again() -> None:
    client = group_client()
    client.cluster = ClusterMetadata()  # knows of no broker
    with pytest.raises(NodeNotReadyError) as error:
        await client.send(NODE, HEARTBEAT)
    assert error.value.retriable
    client._md_update_fut.cancel()


async def test_a_connection_that_is_not_made_does_not_keep_others_from_being_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frozen broker's system takes connections, and nobody answers on them."""
    client = group_client()
    nodes = {
        NODE: SimpleNamespace(host="frozen", port=1),
        OTHER: SimpleNamespace(host="alive", port=1),
    }
    client.cluster = SimpleNamespace(broker_metadata=nodes.get)
    thawed = asyncio.Event()

    async def create(host: str, *_: Any, **__: Any) -> Any:
        if host == "frozen":
            await thawed.wait()
        return Connection(lambda _: GOOD)

    monkeypatch.setattr(aiokafka_client, "create_conn", create)
    first = asyncio.ensure_future(client.ready(NODE))
    second = asyncio.ensure_future(client.ready(NODE))  # one more who wants the same connection
    await asyncio.sleep(0)
    assert await asyncio.wait_for(client.ready(OTHER), 5)
    assert await asyncio.wait_for(client.ready(OTHER, group=ConnectionGroup.COORDINATION), 5)
    thawed.set()
    assert await first
    assert await second
    assert len(client._conns) == 3


async def test_each_connection_has_the_credentials_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[Any, Any]] = []

    async def create(*_: Any, **options: Any) -> Any:
        given.append((options["ssl_context"], options["sasl_plain_password"]))
        raise OSError

    monkeypatch.setattr(aiokafka_client, "create_conn", create)
    client, logins = group_client(), [("a context", "old"), ("another", "new")]
    node = SimpleNamespace(host="alive", port=1)
    client.cluster = SimpleNamespace(broker_metadata=lambda _: node)
    for login in logins:
        client.login = SimpleNamespace(current=lambda login=login: login)  # type: ignore[assignment]
        assert not await client.ready(NODE)
    assert given == logins


# -- joining ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, named(OTHER)], ids=["silent", "names another"])
def test_a_join_ends_when_its_coordinator_is_gone(answer: Any) -> None:
    """Its answer may take as long as a rebalance: nobody waits so long for a broker that is not
    there.
    """

    async def join() -> None:
        client = group_client()
        beside = connect(client, lambda _: answer, group=ConnectionGroup.DEFAULT)
        connection = connect(client, lambda _: None)
        with pytest.raises(KafkaConnectionError):
            await client.send(NODE, JOIN, group=ConnectionGroup.COORDINATION)
        assert now() <= REQUEST_SECONDS
        assert connection.closed
        assert isinstance(beside.sent[0][0], FindCoordinatorRequest)

    run_simulated(join())


@pytest.mark.parametrize("error_code", [0, 15], ids=["itself", "not available"])
def test_a_join_waits_on_as_long_as_the_coordinator_is_there(error_code: int) -> None:
    async def join() -> None:
        client = group_client(join_seconds=65.0)
        beside = connect(client, lambda _: named(NODE, error_code), group=ConnectionGroup.DEFAULT)
        connection = connect(client, lambda _: None)
        with pytest.raises(RequestTimedOutError):
            await client.send(NODE, JOIN, group=ConnectionGroup.COORDINATION)
        assert now() == 65.0
        assert len(beside.sent) == 1 + 65 // REQUEST_SECONDS
        assert connection.closed == [module.CloseReason.CONNECTION_TIMEOUT]

    run_simulated(join())


async def test_nobody_is_asked_any_more_after_the_join() -> None:
    """The task that asks ends with it."""
    client = group_client()
    connect(client, lambda _: named(NODE), group=ConnectionGroup.DEFAULT)
    connection = connect(client, lambda _: GOOD)
    before = asyncio.all_tasks()
    await client.send(NODE, JOIN, group=ConnectionGroup.COORDINATION)
    for _ in range(5):
        await asyncio.sleep(0)  # a cancelled task ends
    assert asyncio.all_tasks() == before
    assert connection.connected()


# -- a static member -------------------------------------------------------------------------------


async def test_a_heartbeat_says_which_worker_it_is_of() -> None:
    client = group_client()
    connection = connect(client, lambda _: GOOD)
    await client.send(NODE, HEARTBEAT, group=ConnectionGroup.COORDINATION)
    ((request, _),) = connection.sent
    sent = request.prepare({HEARTBEAT.API_KEY: (0, 4)})
    assert (sent.API_VERSION, sent.group, sent.generation_id, sent.member_id) == (
        3,
        "group",
        7,
        "member",
    )
    assert sent.encode().endswith(b"\0\x08worker-0")
    assert not sent.FLEXIBLE_VERSION


async def test_a_heartbeat_of_a_member_without_a_name_is_as_ever() -> None:
    client = group_client(instance_id=None)
    connection = connect(client, lambda _: GOOD)
    await client.send(NODE, HEARTBEAT, group=ConnectionGroup.COORDINATION)
    assert connection.sent == [(HEARTBEAT, REQUEST_SECONDS)]


@pytest.mark.parametrize("request_", [HEARTBEAT, JOIN, SYNC], ids=["heartbeat", "join", "sync"])
async def test_a_member_whose_instance_id_another_one_has_ends(request_: Any) -> None:
    client = group_client()
    connect(client, lambda _: named(NODE), group=ConnectionGroup.DEFAULT)
    connect(client, lambda _: SimpleNamespace(error_code=82))
    with pytest.raises(Fenced):
        await client.send(NODE, request_, group=ConnectionGroup.COORDINATION)
