"""The thread in which Faust's aiokafka consumer lives, made to end when it has to and to ride
through the brokers' faults.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.conn import CloseReason
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
)
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import (
    HeartbeatRequest,
    HeartbeatResponse_v1,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from aiokafka.protocol.types import Int32, Schema, String
from faust.transport.drivers import aiokafka as driver

from worker.errors import Fenced
from worker.kafka.errors import group_refused
from worker.settings import Settings
from worker.stream.faust import FAUST_LOG

REQUEST_SECONDS: Final = 3.0
FETCH_SECONDS: Final = 10.0
JOIN_MARGIN_SECONDS: Final = 5.0
"""The group waits for its members for the rebalance timeout, and then answers."""
FENCED_INSTANCE_ID: Final = 82
"""Kafka's code, which aiokafka does not know: another member joined under this instance
id later.
"""


class HeartbeatResponse_v3(HeartbeatResponse_v1):
    """As version 1."""

    API_VERSION = 3


class HeartbeatRequest_v3(RequestStruct):
    """A static member's: with its instance id. Without, a broker could not tell who was replaced
    from who was forgotten.
    """

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

    async def send(
        self, node_id: int, request: Request[Any], *, group: int = ConnectionGroup.DEFAULT
    ) -> Any:
        """The broker's answer to a request; KafkaError where none comes in the time that its kind
        is given.
        """
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
        """Wait for the group, as long as its coordinator is there."""
        watch = asyncio.ensure_future(self._watch_coordinator(node_id, connection))
        try:
            return await _sent(connection, request, self.join_seconds)
        finally:
            watch.cancel()

    async def _watch_coordinator(self, node_id: int, waiting: Any) -> None:
        """Break the connection on which a request waits when its node does not answer, or is no
        longer the coordinator.

        It is asked over another connection: on one and the same a broker answers one request after
        another.
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
        """aiokafka's own, with a lock for each connection: one that is not made must not keep
        others from being made.
        """
        self._get_conn_lock_value = self.connection_locks[node_id, group]
        return await super()._get_conn(node_id, group=group)


def as_group_client(
    client: AIOKafkaClient,
    group_id: str,
    instance_id: str | None,
    rebalance_seconds: float,
    on_fenced: Callable[[], None],
) -> None:
    """Make a consumer's client, which has not begun yet, a `GroupClient`: aiokafka makes its client
    itself.

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
    """Send it; to be awaited for its answer. Raises TimeoutError there when none came in
    this time.
    """
    usual, connection._request_timeout = connection._request_timeout, seconds
    try:
        return connection.send(request)
    finally:
        connection._request_timeout = usual


log = logging.getLogger(__name__)

# How long the broker may hold a fetch that finds nothing.
FETCH_MAX_WAIT_MS = 100
# From one broker in one fetch: what has to arrive within `group_client.FETCH_SECONDS`, over a slow
# line too.
FETCH_MAX_BYTES = 16 * 2**20
# For leaving the group: a courtesy, which a broker that does not answer cannot take.
GOODBYE_SECONDS = 5.0
# For the answer to a worker that leaves because it is refused.
LEAVING_SECONDS = 2.0
# Between two errors that are none of interest any more, for the worker ends.
ENDING_SECONDS = 0.1


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, reading committed records only, with a client that knows a silent
    broker from a slow answer.
    """

    logger = FAUST_LOG

    async def on_start(self) -> None:
        """Start; from here on, what the group's coordination cannot go on after ends the process.

        aiokafka keeps it for whoever asks, and coordinates nothing until then. Faust does not ask:
        the worker would stand still.
        """
        await super().on_start()
        self._ensure_consumer()._coordinator._push_error_to_user = self._end_with

    def leave_group(self) -> None:
        """Leave the group at once, also as a static member, whose place the group would keep; from
        another thread.

        Returns without an answer after `LEAVING_SECONDS`. Raises what brokers answer.
        """
        coordinator = self._ensure_consumer()._coordinator
        leaving = coordinator._send_req(
            LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
        )
        asyncio.run_coroutine_threadsafe(leaving, self.thread_loop).result(LEAVING_SECONDS)

    async def _end_with(self, cause: BaseException) -> None:
        worker = self.transport.worker
        if isinstance(cause, GroupAuthorizationFailedError):
            cause = group_refused(worker.settings.app_id)
        if not self.app.should_stop:
            worker.surroundings.die(cause)
        # not at once again: aiokafka goes on trying until it is stopped
        await asyncio.sleep(ENDING_SECONDS)

    async def on_thread_stop(self) -> None:
        """End, whether a broker answers or not. As a static member this worker stays in the group
        until its session is over.

        aiokafka waits for whatever is under way for as long as for any other answer, and where a
        fetch has just failed, its end is a cancellation that would end this thread without a word
        to whoever waits for it. Nothing is lost either way: offsets are committed with what was
        made of them, and a member that says nothing more is expected by the group.
        """
        leaving = asyncio.ensure_future(super().on_thread_stop())
        await asyncio.wait({leaving}, timeout=GOODBYE_SECONDS)
        if leaving.done() and not leaving.cancelled():
            leaving.result()
            return
        log.info("ended without a broker's answer")
        leaving.cancel()
        if self._consumer is not None:
            await asyncio.wait({asyncio.ensure_future(self._consumer._client.close())}, timeout=1.0)

    def _create_worker_consumer(self, transport: Any) -> Any:
        self.consumer.in_transaction = (
            True  # the only switch Faust has for isolation_level=read_committed
        )
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
        # Faust says 1.5 s: a partition without news would hold back the next fetch of its
        # neighbours for so long.
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        consumer._fetch_max_bytes = FETCH_MAX_BYTES
        settings = transport.worker.settings
        as_group_client(
            consumer._client,
            settings.app_id,
            settings.group_instance_id,
            consumer._rebalance_timeout_ms / 1000,
            on_fenced=lambda: transport.worker.surroundings.die(fenced(settings)),
        )
        return consumer


def fenced(settings: Settings) -> Fenced:
    """What a worker ends with whose place in the group another one took under its name."""
    return Fenced(
        f"another worker has this instance id: it took the place of {settings.instance_id} in the group {settings.app_id}; "
        "give each worker its own COVERSUMM_INSTANCE_ID"
    )
