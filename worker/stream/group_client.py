"""aiokafka's client, made to notice a broker that is gone, and to say in every heartbeat which worker this is.

aiokafka has one timeout for all requests. As long as a rebalance may take, it lets a worker wait that long for a broker that was
stopped, killed or frozen: for a fetch, for a heartbeat, and again for the connection to whoever comes next. Here each kind of
request waits as long as its answer may take and no longer, against a worker's session (10 s, never below 6 s) and the time after
which a cluster gives up a broker (`broker.session.timeout.ms`, 9 s):

- what a broker answers at once, connecting included: `REQUEST_SECONDS`. Half of the shortest session: a heartbeat that is not
  answered is sent again, elsewhere if need be, before the session is over;
- fetches: `FETCH_SECONDS`, for their answers may be large. Until then the cluster has a new leader for what a dead one led;
- joining: as long as the group waits for its members. Meanwhile the coordinator is asked whether it is still there.
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
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatResponse_v1, JoinGroupRequest, SyncGroupRequest
from aiokafka.protocol.types import Int32, Schema, String

REQUEST_SECONDS: Final = 3.0
FETCH_SECONDS: Final = 10.0
JOIN_MARGIN_SECONDS: Final = 5.0
"""The group waits for its members for the rebalance timeout, and then answers."""

FENCED_INSTANCE_ID: Final = 82
"""Kafka's code, which aiokafka does not know: another member joined under this instance id later."""


class HeartbeatResponse_v3(HeartbeatResponse_v1):
    """As version 1."""

    API_VERSION = 3


class HeartbeatRequest_v3(RequestStruct):
    """A static member's: with its instance id. Without, a broker could not tell who was replaced from who was forgotten."""

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
    """aiokafka's heartbeat, which knows versions 0 and 1 alone, in version 3."""

    API_KEY = HeartbeatRequest.API_KEY

    def __init__(self, plain: HeartbeatRequest, instance_id: str) -> None:
        self._fields = (plain._group, plain._generation_id, plain._member_id, instance_id)

    def build(self, request_struct_class: type[HeartbeatRequest_v3]) -> HeartbeatRequest_v3:
        """The request as it is sent."""
        return request_struct_class(*self._fields)


class GroupClient(AIOKafkaClient):
    """The client of a member of a consumer group; made by `as_group_client`."""

    group_id: str
    instance_id: str | None
    join_seconds: float
    on_fenced: Callable[[], None]
    connection_locks: defaultdict[tuple[int, int], asyncio.Lock]

    async def send(self, node_id: int, request: Request[Any], *, group: int = ConnectionGroup.DEFAULT) -> Any:
        """The broker's answer to a request; KafkaError where none comes in the time that its kind is given."""
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
                answer = await _sent(connection, request, FETCH_SECONDS if fetches else REQUEST_SECONDS)
        except TimeoutError as late:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise RequestTimedOutError from late
        if getattr(answer, "error_code", 0) == FENCED_INSTANCE_ID:
            self.on_fenced()
        return answer

    async def _join(self, node_id: int, connection: Any, request: Request[Any]) -> Any:
        """Wait for the group, as long as its coordinator is there."""
        watch = asyncio.ensure_future(self._watch_coordinator(node_id, connection))
        try:
            return await _sent(connection, request, self.join_seconds)
        finally:
            watch.cancel()

    async def _watch_coordinator(self, node_id: int, waiting: Any) -> None:
        """Break the connection on which a request waits when its node does not answer, or is no longer the coordinator.

        It is asked over another connection: on one and the same a broker answers one request after another.
        """
        while await self._is_coordinator(node_id):
            await asyncio.sleep(REQUEST_SECONDS)
        waiting.close(reason=CloseReason.CONNECTION_BROKEN)

    async def _is_coordinator(self, node_id: int) -> bool:
        try:
            named = await self.send(node_id, FindCoordinatorRequest(self.group_id, CoordinationType.GROUP))
        except KafkaError:
            return False
        return bool(named.error_code or named.coordinator_id == node_id)

    async def _get_conn(self, node_id: int, *, group: int = ConnectionGroup.DEFAULT, **_: Any) -> Any:
        """aiokafka's own, with a lock for each connection: one that is not made must not keep others from being made."""
        self._get_conn_lock_value = self.connection_locks[node_id, group]
        return await super()._get_conn(node_id, group=group)


def as_group_client(
    client: AIOKafkaClient,
    group_id: str,
    instance_id: str | None,
    rebalance_seconds: float,
    on_fenced: Callable[[], None],
) -> None:
    """Make a consumer's client, which has not begun yet, a `GroupClient`: aiokafka makes its client itself.

    Args:
        client: of the consumer.
        group_id: the consumer group.
        instance_id: of a static member; None: it is none.
        rebalance_seconds: how long the group waits for its members.
        on_fenced: called when another member has the instance id now.
    """
    client.__class__ = GroupClient
    client.group_id, client.instance_id = group_id, instance_id
    client.join_seconds = rebalance_seconds + JOIN_MARGIN_SECONDS
    client.on_fenced = on_fenced
    client.connection_locks = defaultdict(asyncio.Lock)
    client._request_timeout_ms = int(REQUEST_SECONDS * 1000)


def _sent(connection: Any, request: Request[Any], seconds: float) -> Any:
    """Send it; to be awaited for its answer. Raises TimeoutError there when none came in this time."""
    usual, connection._request_timeout = connection._request_timeout, seconds
    try:
        return connection.send(request)
    finally:
        connection._request_timeout = usual
