"""The thread of Faust's aiokafka consumer, which ends whether brokers answer or not."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import LeaveGroupRequest
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver

from worker.errors import Fenced
from worker.kafka.clients import Clients
from worker.kafka.errors import group_refused, session_refused
from worker.kafka.group import foreign_group
from worker.settings import Settings
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.group_client import as_group_client
from worker.stream.faust.records import read_any_record

log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS = 100
"""How long a broker may hold a fetch that finds nothing. Faust's 1.5 s would hold back the next
fetch from all partitions of that broker."""
FETCH_MAX_BYTES = 16 * 2**20
"""Bytes of one fetch from one broker: they must arrive within `FETCH_SECONDS` on a slow link."""
GOODBYE_SECONDS = 5.0  # longest wait for the consumer to stop
LEAVING_SECONDS = 2.0  # longest wait for the answer to a worker that leaves its group
ENDING_SECONDS = 0.1  # pause after a coordination error: aiokafka retries until it is stopped
PROBE_BYTES = 2**20  # bytes of a fetch that asks whether a partition is empty
READ_COMMITTED = 1


async def is_empty(client: Any, tp: TopicPartition, position: int, end: int) -> bool:
    """True if a partition has no record from `position` on, though its stable part reaches `end`.

    It is fetched alone: an answer about several may have no room for it. A broker returns at least
    one batch of any size. Without an answer the partition does not count as empty.
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
    # The node is away or no longer the leader: the next request goes to the new one.
    except KafkaError as cause:
        log.debug("could not check whether %s is empty from %d on: %r", tp, position, cause)
        return False
    for _topic, partitions in answer.topics:
        for _partition, error, _highwater, stable, *_others, records in partitions:
            return bool(error == 0 and stable >= end and not records)
    return False


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, which reads committed records only, with a `GroupClient`."""

    logger = FAUST_LOG
    has_owners = True
    """True if the group's last assignment gave partitions of the input to its members."""

    async def on_start(self) -> None:
        """Start. A coordination error that aiokafka cannot recover from ends the process.

        aiokafka stores such an error until it is asked for records, which Faust does not do.
        """
        await super().on_start()
        self._ensure_consumer()._coordinator._push_error_to_user = self._end_with
        self.watch_input()

    def watch_input(self) -> None:
        """Join again from now on if an answer about topics shows the input without an owner."""
        self._ensure_consumer()._client.cluster.add_listener(self._join_for_owners)

    def _join_for_owners(self, cluster: Any) -> None:
        # The group assigned while the topic was missing. Only a leader of the group waits for the
        # topic, and a leader that restarts as a static member no longer knows that it leads.
        topic = self.transport.worker.settings.input_topic
        if not self.has_owners and cluster.partitions_for_topic(topic):
            self._ensure_consumer()._coordinator.request_rejoin()

    def leave_group(self) -> None:
        """Leave the group at once, from another thread; also as a static member.

        Waits for at most `LEAVING_SECONDS`. Raises a broker's error.
        """
        asyncio.run_coroutine_threadsafe(self._leave(), self.thread_loop).result(LEAVING_SECONDS)

    async def _leave(self) -> None:
        coordinator = self._ensure_consumer()._coordinator
        await coordinator._send_req(LeaveGroupRequest(coordinator.group_id, coordinator.member_id))

    async def _end_with(self, cause: BaseException) -> None:
        if not self.app.should_stop:
            worker = self.transport.worker
            worker.surroundings.die(_explained(cause, worker.settings, worker.surroundings.clients))
        await asyncio.sleep(ENDING_SECONDS)

    async def on_thread_stop(self) -> None:
        """End, whether a broker answers or not.

        aiokafka waits long for requests in flight. If a fetch has just failed, its end is a
        cancellation, which would end this thread while its callers wait. Nothing is lost either
        way: offsets are committed with their results, and the group notices a silent member. A
        bounded run that is over leaves its group first, also as a static member: no process takes
        its place, and until its session ended it would count as a worker.
        """
        if self.app.is_over:
            with suppress(Exception):
                await asyncio.wait_for(self._leave(), LEAVING_SECONDS)
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
        read_any_record(transport.worker.settings.max_event_bytes)
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
            login=transport.login,
        )
        return consumer


def _explained(cause: BaseException, settings: Settings, clients: Clients) -> BaseException:
    """The error of a coordination that cannot continue, in words that say what to do."""
    if isinstance(cause, GroupAuthorizationFailedError):
        return group_refused(settings.app_id)
    if isinstance(cause, InvalidSessionTimeoutError):
        return session_refused(settings)
    is_foreign = isinstance(cause, InconsistentGroupProtocolError)
    return foreign_group(clients, settings.app_id, None if is_foreign else cause)


def fenced(settings: Settings) -> Fenced:
    """The error of a worker whose place in the group another worker took under its name."""
    return Fenced(
        f"another worker has this instance id: it took the place of {settings.instance_id} in the "
        f"group {settings.app_id}; give each worker its own COVERSUMM_INSTANCE_ID"
    )
