"""The thread in which Faust's aiokafka consumer lives, and the client it talks to brokers with.

aiokafka waits for any answer as long as for the slowest one, so a silent broker would cost the
worker its membership. Here each kind of request has its own time, joining a group ends with its
coordinator, and the thread ends whether brokers answer or not.
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
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver

from worker.errors import Fenced
from worker.kafka.errors import group_refused
from worker.settings import Settings
from worker.stream.faust import FAUST_LOG

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 3.0
"""Longest wait for an answer, other than to a fetch or a join."""
FETCH_SECONDS: Final = 10.0
"""Longest wait for the records of a fetch."""
JOIN_MARGIN_SECONDS: Final = 5.0
"""Extra wait after the rebalance timeout, at which the group answers its members."""
FETCH_MAX_WAIT_MS = 100
"""How long a broker may hold a fetch that finds nothing. Faust's 1.5 s would hold back the next
fetch from all partitions of that broker."""
FETCH_MAX_BYTES = 16 * 2**20
"""Bytes of one fetch from one broker: they must arrive within `FETCH_SECONDS` on a slow link."""
GOODBYE_SECONDS = 5.0
"""Longest wait for the consumer to stop."""
LEAVING_SECONDS = 2.0
"""Longest wait for the answer to a worker that leaves its group."""
ENDING_SECONDS = 0.1
"""Pause after a coordination error: aiokafka retries until it is stopped, and the worker ends."""
PROBE_BYTES = 2**20
"""Bytes of a fetch that asks whether a partition is empty."""
READ_COMMITTED = 1
FENCED_INSTANCE_ID: Final = 82
"""Kafka's error code, unknown to aiokafka: another member joined later under this instance id."""


class HeartbeatResponse_v3(HeartbeatResponse_v1):
    """As version 1."""

    API_VERSION = 3


class HeartbeatRequest_v3(RequestStruct):
    """A heartbeat with the instance id: without it a broker cannot tell a static member that was
    replaced from one that was forgotten.
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
    """aiokafka's heartbeat in version 3; aiokafka itself knows versions 0 and 1."""

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
        """Wait for the group as long as its coordinator is there."""
        watch = asyncio.ensure_future(self._watch_coordinator(node_id, connection))
        try:
            return await _sent(connection, request, self.join_seconds)
        finally:
            watch.cancel()

    async def _watch_coordinator(self, node_id: int, waiting: Any) -> None:
        """Close the connection on which a request waits when its node does not answer, or is no
        longer the coordinator.

        The node is asked over another connection: a broker answers the requests of one connection
        one after another.
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
        """aiokafka's own, with one lock per connection: one that cannot be made must not block the
        others.
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
    """Turn a consumer's client that has not started into a `GroupClient`: aiokafka creates its
    client itself.

    Args:
        client: of the consumer.
        group_id: the consumer group.
        instance_id: of a static member, or None.
        rebalance_seconds: how long the group waits for its members.
        on_fenced: called when another member has the instance id.
    """
    client.__class__ = GroupClient
    client.group_id, client.instance_id = group_id, instance_id
    client.join_seconds = rebalance_seconds + JOIN_MARGIN_SECONDS
    client.on_fenced = on_fenced
    client.connection_locks = defaultdict(asyncio.Lock)
    client._request_timeout_ms = int(REQUEST_SECONDS * 1000)


def _sent(connection: Any, request: Request[Any], seconds: float) -> Any:
    """The answer, to be awaited; TimeoutError if none arrives in time."""
    usual, connection._request_timeout = connection._request_timeout, seconds
    try:
        return connection.send(request)
    finally:
        connection._request_timeout = usual


async def is_empty(client: Any, tp: TopicPartition, position: int, end: int) -> bool:
    """Whether a partition has no record from `position` on, though its stable part reaches `end`.

    It is fetched alone: beside others an answer may have had no room for it. A broker returns at
    least one batch, however large. Without an answer the partition does not count as empty.
    """
    node = client.cluster.leader_for_partition(tp)
    if node is None or node < 0:
        return False
    partitions = [(tp.partition, position, PROBE_BYTES)]
    request = FetchRequest(
        FETCH_MAX_WAIT_MS, 0, PROBE_BYTES, READ_COMMITTED, [(tp.topic, partitions)]
    )
    try:
        answer = await client.send(node, request)
    # The node is away or no longer the leader: the next question goes to the new one.
    except KafkaError as cause:
        log.debug("not known whether %s is empty from %d on: %r", tp, position, cause)
        return False
    for _topic, partitions in answer.topics:
        for _partition, error, _highwater, stable, *_others, records in partitions:
            return bool(error == 0 and stable >= end and not records)
    return False


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, which reads committed records only, with a `GroupClient`."""

    logger = FAUST_LOG

    async def on_start(self) -> None:
        """Start. A coordination error that aiokafka cannot recover from then ends the process.

        aiokafka stores such an error until it is asked for records, and coordinates nothing until
        then. Faust does not ask: the worker would stand still.
        """
        await super().on_start()
        self._ensure_consumer()._coordinator._push_error_to_user = self._end_with

    def leave_group(self) -> None:
        """Leave the group at once, from another thread; also as a static member, whose place the
        group would keep.

        Returns without an answer after `LEAVING_SECONDS`. Raises a broker's error.
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
        await asyncio.sleep(ENDING_SECONDS)

    async def on_thread_stop(self) -> None:
        """End, whether a broker answers or not. A static member stays in the group until its
        session ends.

        aiokafka waits for requests in flight as long as for any other answer. If a fetch has just
        failed, its end is a cancellation, which would end this thread without a word to its
        callers. Nothing is lost either way: offsets are committed with their results, and the group
        notices a silent member.
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
        # Faust's only switch for isolation_level=read_committed.
        self.consumer.in_transaction = True
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
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
    """The error of a worker whose place in the group another worker took under its name."""
    return Fenced(
        f"another worker has this instance id: it took the place of {settings.instance_id} in the "
        f"group {settings.app_id}; give each worker its own COVERSUMM_INSTANCE_ID"
    )
