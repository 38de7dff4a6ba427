"""The process that runs a worker's Faust app: its event loop, its signals, and its exit code."""

import asyncio
import gc
import os
import signal
import sys
import threading
import time
from importlib import import_module

import uvloop
from faust.worker import Worker

from worker.errors import INTERRUPTED, Crash, SetupError
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.application import CoverSummApp
from worker.stream.surroundings import die

SWITCH_SECONDS = 0.0005
"""Python's switch interval: at its default of 5 ms the event loops of app and consumer wait so long
for the thread that computes that the worker runs out of records.
"""
FAUST_NAMES = {
    "faust.transport.drivers.aiokafka:Consumer": (
        "_add_gap _drain_messages _getmany _new_consumer_thread _new_offset earliest_offsets "
        "highwaters on_buffer_full on_partitions_assigned on_partitions_revoked perform_seek "
        "resume_partitions seek_wait verify_all_partitions_active"
    ),
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread": (
        "_consumer _create_worker_consumer _ensure_consumer on_start on_thread_stop seek"
    ),
    "aiokafka.client:AIOKafkaClient": "_get_conn _get_conn_lock coordinator_lookup send",
    "aiokafka.consumer.group_coordinator:GroupCoordinator": (
        "_push_error_to_user _send_req request_rejoin"
    ),
    "aiokafka.consumer:fetcher": "FetchResult MemoryRecords PartitionRecords",
    "aiokafka:codec": "_detect_xerial_stream snappy_decode",
    "aiokafka.cluster:ClusterMetadata": "add_listener partitions_for_topic",
    "aiokafka.conn:AIOKafkaConnection": "close send",
    "faust.assignor.partition_assignor:PartitionAssignor": (
        "_compress _decompress _url metadata on_assignment"
    ),
    "faust.assignor:partition_assignor": "CopartitionedAssignor",
    "faust.assignor.copartitioned_assignor:CopartitionedAssignor": "_assign get_assignment",
    "faust.tables.table:Table": (
        "_new_store_by_url apply_changelog_batch on_rebalance on_recovery_completed on_stop"
    ),
    "faust.stores.rocksdb:Store": (
        "_db_for_partition assign_partitions offset_key on_rebalance persisted_offset "
        "revoke_partitions stop"
    ),
}
"""By class, the private names that the adapters use: another version may rename any of them."""


def check_faust() -> None:
    """Raise SetupError if the installed Faust or aiokafka lacks a name of `FAUST_NAMES`."""
    for place, names in FAUST_NAMES.items():
        module, _, owner = place.partition(":")
        holder = getattr(import_module(module), owner, None)
        missing = [name for name in names.split() if not hasattr(holder, name)]
        if missing:
            library = "aiokafka" if module.startswith("aiokafka") else "faust-streaming"
            raise SetupError(
                f"the installed {library} has no {owner}.{missing[0]}: install the version that "
                "pyproject.toml pins"
            )


class _SignalledWorker(Worker):
    """Faust's worker with a shutdown deadline, and an exit code of its own for Ctrl-C."""

    logger = FAUST_LOG
    shutdown_seconds: float
    interrupted = False
    stopped_by: tuple[str, float] | None = None

    def _on_sigint(self) -> None:
        if self.interrupted:
            os._exit(INTERRUPTED)  # a second Ctrl-C ends at once
        self.interrupted = True
        self._shut_down(signal.SIGINT)

    def _on_sigterm(self) -> None:
        self._shut_down(signal.SIGTERM)

    def end(self) -> None:
        """End in order, with everything done."""
        self.stopped_by = self.stopped_by or ("its end", time.monotonic())
        self.app.is_over = True
        self._shut_down(signal.SIGTERM)

    def _shut_down(self, received: signal.Signals) -> None:
        self.stopped_by = self.stopped_by or (received.name, time.monotonic())
        deadline = threading.Timer(
            self.shutdown_seconds,
            die,
            [Crash(f"the shutdown took longer than {self.shutdown_seconds:g} s")],
        )
        deadline.daemon = True
        deadline.start()
        self.app.leave_off()  # else Faust processes all fetched events, which may take long
        self._flag_as_shutdown_by_signal()
        self._schedule_shutdown(received)

    async def _sentinel_task(self) -> None:
        """Do nothing: mode would sleep for a second after the end, and delay a restart."""


def use_event_loop() -> None:
    """Make the event loop that the app is built on."""
    asyncio.set_event_loop(uvloop.new_event_loop())


def run(app: CoverSummApp, shutdown_seconds: float) -> int:
    """Run the app to a signal or its end; the exit code. Raises Crash if Faust ended otherwise."""
    app.finalize()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # loaded modules live as long as the process
    gc.set_threshold(50_000, 20, 20)  # events make many objects and hardly any cycles
    worker = _SignalledWorker(
        app,
        loop=asyncio.get_event_loop(),
        override_logging=False,
        redirect_stdouts=False,
        quiet=True,
    )
    worker.spinner = None
    worker.shutdown_seconds = shutdown_seconds
    app.end = worker.end
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        if end.code and not worker.interrupted:
            raise Crash("Faust ended without a signal; the lines before say why") from end
    if worker.stopped_by is not None:
        received, since = worker.stopped_by
        app.stream_worker.assignment.journal.stopped(received, time.monotonic() - since)
    return INTERRUPTED if worker.interrupted else 0
