"""The thread in which Faust's aiokafka consumer lives, made to end when it has to and to ride through the brokers' faults."""

import asyncio
import logging
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError
from aiokafka.protocol.group import LeaveGroupRequest
from faust.transport.drivers import aiokafka as driver

from worker.errors import Fenced
from worker.kafka.refusals import group_refused
from worker.settings import Settings
from worker.stream.faust_log import FAUST_LOG
from worker.stream.group_client import as_group_client

log = logging.getLogger(__name__)

# How long the broker may hold a fetch that finds nothing.
FETCH_MAX_WAIT_MS = 100
# From one broker in one fetch: what has to arrive within `group_client.FETCH_SECONDS`, over a slow line too.
FETCH_MAX_BYTES = 16 * 2**20
# For leaving the group: a courtesy, which a broker that does not answer cannot take.
GOODBYE_SECONDS = 5.0
# For the answer to a worker that leaves because it is refused.
LEAVING_SECONDS = 2.0
# Between two errors that are none of interest any more, for the worker ends.
ENDING_SECONDS = 0.1


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread, reading committed records only, with a client that knows a silent broker from a slow answer."""

    logger = FAUST_LOG

    async def on_start(self) -> None:
        """Start; from here on, what the group's coordination cannot go on after ends the process.

        aiokafka keeps it for whoever asks, and coordinates nothing until then. Faust does not ask: the worker would stand still.
        """
        await super().on_start()
        self._ensure_consumer()._coordinator._push_error_to_user = self._end_with

    def leave_group(self) -> None:
        """Leave the group at once, also as a static member, whose place the group would keep; from another thread.

        Returns without an answer after `LEAVING_SECONDS`. Raises what brokers answer.
        """
        coordinator = self._ensure_consumer()._coordinator
        leaving = coordinator._send_req(LeaveGroupRequest(coordinator.group_id, coordinator.member_id))
        asyncio.run_coroutine_threadsafe(leaving, self.thread_loop).result(LEAVING_SECONDS)

    async def _end_with(self, cause: BaseException) -> None:
        worker = self.transport.worker
        if isinstance(cause, GroupAuthorizationFailedError):
            cause = group_refused(worker.settings.app_id)
        if not self.app.should_stop:
            worker.surroundings.die(cause)
        await asyncio.sleep(ENDING_SECONDS)  # not at once again: aiokafka goes on trying until it is stopped

    async def on_thread_stop(self) -> None:
        """End, whether a broker answers or not. As a static member this worker stays in the group until its session is over.

        aiokafka waits for whatever is under way for as long as for any other answer, and where a fetch has just failed, its end
        is a cancellation that would end this thread without a word to whoever waits for it. Nothing is lost either way: offsets
        are committed with what was made of them, and a member that says nothing more is expected by the group.
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
        self.consumer.in_transaction = True  # the only switch Faust has for isolation_level=read_committed
        try:
            consumer = super()._create_worker_consumer(transport)
        finally:
            self.consumer.in_transaction = False
        # Faust says 1.5 s: a partition without news would hold back the next fetch of its neighbours for so long.
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
