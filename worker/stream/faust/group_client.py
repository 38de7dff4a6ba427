"""The client of a group member: each kind of request has its own time.

aiokafka waits for any answer as long as for the slowest one, so a silent broker would cost the
worker its membership. Joining a group ends here with its coordinator.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.conn import CloseReason
from aiokafka.errors import KafkaError, NodeNotReadyError, RequestTimedOutError
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import (
    HeartbeatRequest,
    HeartbeatResponse_v1,
    JoinGroupRequest,
    SyncGroupRequest,
)
from aiokafka.protocol.types import Int32, Schema, String

from worker.credentials.files import FromFiles, KafkaLogin

REQUEST_SECONDS: Final = 3.0  # longest wait for an answer, other than to a fetch or a join
FETCH_SECONDS: Final = 10.0  # longest wait for the records of a fetch
JOIN_MARGIN_SECONDS: Final = 5.0  # extra wait after the rebalance timeout, when the group answers
FENCED_INSTANCE_ID: Final = 82
"""Kafka's error code, unknown to aiokafka: another member joined later under this instance id."""


class HeartbeatResponse_v3(HeartbeatResponse_v1):
    """The same as version 1."""

    API_VERSION = 3


class HeartbeatRequest_v3(RequestStruct):
    """A heartbeat with the instance id, which tells a replaced static member from a lost one."""

    API_KEY = HeartbeatRequest.API_KEY
    API_VERSION = 3
    RESPONSE_TYPE = HeartbeatResponse_v3
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class StaticHeartbeat(Request[HeartbeatRequest_v3]):
    """aiokafka's heartbeat in version 3; aiokafka knows versions 0 and 1."""

    API_KEY = HeartbeatRequest.API_KEY

    def __init__(self, plain: HeartbeatRequest, instance_id: str) -> None:
        self._fields = (plain._group, plain._generation_id, plain._member_id, instance_id)

    def build(self, request_struct_class: type[HeartbeatRequest_v3]) -> HeartbeatRequest_v3:
        """The request as it is sent."""
        return request_struct_class(*self._fields)


class GroupClient(AIOKafkaClient):
    """The client of a member of a consumer group; `as_group_client` makes it."""

    group_id: str
    instance_id: str | None
    join_seconds: float
    on_fenced: Callable[[], None]
    connection_locks: defaultdict[tuple[int, int], asyncio.Lock]
    login: FromFiles[KafkaLogin]

    async def send(
        self, node_id: int, request: Request[Any], *, group: int = ConnectionGroup.DEFAULT
    ) -> Any:
        """The broker's answer. Raises KafkaError if none arrives within the time of its kind."""
        connection = await self._get_conn(node_id, group=group)
        if connection is None:
            raise NodeNotReadyError(f"node {node_id} cannot be reached")
        if isinstance(request, HeartbeatRequest) and self.instance_id is not None:
            request = StaticHeartbeat(request, self.instance_id)
        try:
            if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                answer = await self._join(node_id, connection, request)
            else:
                fetches = isinstance(request, FetchRequest)
                answer = await _sent(
                    connection, request, FETCH_SECONDS if fetches else REQUEST_SECONDS
                )
        except TimeoutError as late:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise RequestTimedOutError from late
        if getattr(answer, "error_code", 0) == FENCED_INSTANCE_ID:
            self.on_fenced()
        return answer

    async def _join(self, node_id: int, connection: Any, request: Request[Any]) -> Any:
        """The answer to a join, which waits while the coordinator answers other requests."""
        watch = asyncio.ensure_future(self._watch_coordinator(node_id, connection))
        try:
            return await _sent(connection, request, self.join_seconds)
        finally:
            watch.cancel()

    async def _watch_coordinator(self, node_id: int, waiting: Any) -> None:
        """Close the waiting connection once its node is silent or no longer the coordinator.

        A broker answers the requests of one connection in order, so this uses another one.
        """
        while await self._is_coordinator(node_id):
            await asyncio.sleep(REQUEST_SECONDS)
        waiting.close(reason=CloseReason.CONNECTION_BROKEN)

    async def _is_coordinator(self, node_id: int) -> bool:
        try:
            named = await self.send(
                node_id, FindCoordinatorRequest(self.group_id, CoordinationType.GROUP)
            )
        except KafkaError:
            return False
        return bool(named.error_code or named.coordinator_id == node_id)

    async def _get_conn(
        self, node_id: int, *, group: int = ConnectionGroup.DEFAULT, **_: Any
    ) -> Any:
        """aiokafka's own, with the present credentials, and one lock per connection, so that none
        blocks the others.
        """
        self._ssl_context, self._sasl_plain_password = self.login.current()
        self._get_conn_lock_value = self.connection_locks[node_id, group]
        return await super()._get_conn(node_id, group=group)


def as_group_client(
    client: AIOKafkaClient,
    group_id: str,
    instance_id: str | None,
    rebalance_seconds: float,
    on_fenced: Callable[[], None],
    login: FromFiles[KafkaLogin],
) -> None:
    """Turn a consumer's client that has not started into a `GroupClient`.

    aiokafka creates the client itself. `on_fenced` is called when another member has the instance
    id.
    """
    client.__class__ = GroupClient
    client.group_id, client.instance_id = group_id, instance_id
    client.join_seconds = rebalance_seconds + JOIN_MARGIN_SECONDS
    client.on_fenced, client.login = on_fenced, login
    client.connection_locks = defaultdict(asyncio.Lock)
    client._request_timeout_ms = int(REQUEST_SECONDS * 1000)


def _sent(connection: Any, request: Request[Any], seconds: float) -> Any:
    """Send with a timeout of its own; returns an awaitable, which raises TimeoutError."""
    usual, connection._request_timeout = connection._request_timeout, seconds
    try:
        return connection.send(request)
    finally:
        connection._request_timeout = usual
