"""The worker as a Faust app: one agent on the input topic, one table, and the delivery between them.

    input topic -> GuardedConsumer -> agent -> Delivery -> Processor
                                                  |-> one Kafka transaction: output, dead letters, changelog, offsets
                                                  `-> one RocksDB batch per partition

Everything that can be wrong with the surroundings is looked at before the worker joins its group (`build_app`), so that it
ends in one clear line and exit code 2.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import faust
from faust.auth import SASLCredentials, SSLCredentials
from faust.worker import Worker

from worker.errors import Crash, SurroundingsError
from worker.kafka.topic_ids import TopicIds
from worker.kafka.topics import changelog_topic, prepare_topics
from worker.kafka.transaction import TransactionalProducer, check_group_metadata
from worker.limits import Limit
from worker.metrics import Metrics
from worker.processing.config import check_index, processor_config
from worker.processing.processor import Processor
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.storage.databases import Databases
from worker.storage.lock import lock_data_dir
from worker.stream.consumer import GuardedTransport
from worker.stream.delivery import Delivery
from worker.stream.fatal import die
from worker.stream.status import WorkerState
from worker.stream.table import CommittedTable
from worker.stream.watchdog import Watchdog
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine
from worker.web import check_port, install_web

# What the guarded consumer, the table and the transport override or call. All of it is checked at start, because Faust is free
# to rename any of it in another version.
_FAUST_NAMES = {
    "faust.transport.drivers.aiokafka:Consumer": (
        "_add_gap",
        "_drain_messages",
        "_getmany",
        "_new_consumer_thread",
        "_new_offset",
        "earliest_offsets",
        "highwaters",
        "on_buffer_full",
        "on_partitions_assigned",
        "on_partitions_revoked",
        "perform_seek",
        "resume_partitions",
        "seek_wait",
    ),
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread": (
        "_create_worker_consumer",
        "_ensure_consumer",
        "seek",
    ),
    "faust.tables.table:Table": (
        "_new_store_by_url",
        "apply_changelog_batch",
        "on_rebalance",
        "on_recovery_completed",
        "on_stop",
    ),
    "faust.stores.rocksdb:Store": (
        "_db_for_partition",
        "_open_for_partition",
        "offset_key",
        "partition_path",
    ),
}


# The event loops of app and consumer hand each other many small tasks while the delivery's thread computes; at Python's default
# of 5 ms each of them waits so long for its turn that the worker idles for want of records.
SWITCH_SECONDS = 0.0005
# From one partition in one fetch: at Kafka's default of 1 MiB, events with embeddings come in fetches of some hundred.
MAX_FETCH_BYTES = 4 * 2**20


class CoverSummApp(faust.App):
    """A Faust app that carries what consumer and table need to know of each other."""

    input_topic_name: str
    client_config: dict[str, Any]
    linger_seconds: float
    metrics: Metrics
    topic_ids: TopicIds
    delivery: Delivery
    worker_state: WorkerState
    watchdog: Watchdog

    def on_restore_progress(self, rows: int, remaining: int) -> None:
        """A restore has read so many rows and has so many offsets to go."""
        self.delivery.progressed_at = time.monotonic()  # a restore that stands still ends by itself
        self.metrics.observe_restore(rows, remaining)

    async def on_started(self) -> None:
        """Start watching when the app runs."""
        await super().on_started()
        self.watchdog.start()
        self.add_future(self.watchdog.beat())

    async def on_stop(self) -> None:
        """Stop watching; then stop."""
        self.watchdog.stop()
        await super().on_stop()


def build_app(settings: Settings) -> CoverSummApp:
    """Look at the surroundings, take over the transactional id, and put the app together.

    Raises:
        SurroundingsError: a setting, the data directory, the model or the broker is not as it must be.
    """
    check_faust()
    check_index(settings.index)
    check_port(settings.web_bind, settings.web_port)
    lock_data_dir(settings.data_dir)
    engine = load_engine(
        settings.embedder, threads=settings.embedder_threads, cache_dir=settings.model_cache_dir
    )
    partitions = prepare_topics(settings, die)
    client_config = librdkafka_config(settings)
    check_group_metadata(client_config, settings.app_id)
    metrics = Metrics()
    producer = TransactionalProducer.configured(
        settings, client_config, on_full=lambda: metrics.observe_limit(Limit.IN_FLIGHT)
    )
    databases = Databases(settings.rocksdb_bytes, partitions)
    producer.start()
    return _assemble(settings, partitions, engine, producer, databases, metrics)


def _assemble(
    settings: Settings,
    partitions: int,
    engine: EmbeddingEngine | None,
    producer: TransactionalProducer,
    databases: Databases,
    metrics: Metrics,
) -> CoverSummApp:
    app = _faust_app(settings, partitions)
    raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    table = app.Table(TABLE_NAME, key_type=bytes, value_type=bytes, partitions=partitions)
    table.data.rocksdb_options = databases
    processor = Processor(processor_config(settings, partitions, engine), table.rows, engine)
    app.metrics = metrics
    app.topic_ids = TopicIds(
        app.client_config,
        (settings.input_topic, changelog_topic(settings)),
        timeout_seconds=settings.commit_timeout_ms / 1000,
    )
    app.delivery = Delivery(
        processor=processor,
        producer=producer,
        table=table,
        changelog_topic=changelog_topic(settings),
        input_topic=settings.input_topic,
        batch_events=settings.batch_size,
        batch_bytes=settings.batch_bytes,
        deadline_seconds=settings.commit_timeout_ms / 1000,
        membership=lambda: app.consumer.held_membership,
        metrics=app.metrics,
        topic_ids=app.topic_ids,
    )
    app.worker_state = WorkerState(
        app, processor, app.delivery, changelog_topic(settings), partitions, databases
    )
    app.watchdog = Watchdog(
        app.worker_state.stall, lambda: app.worker_state.progressed_at, settings.stall_timeout_ms / 1000
    )
    install_web(app, app.worker_state)

    @app.agent(app.topic(settings.input_topic, **raw), name="summarize")
    async def summarize(stream: Any) -> None:
        async for event in stream.noack().events():
            await app.delivery.deliver(event.value)
            await stream.ack(event)  # Faust's own bookkeeping: it waits for it at a rebalance

    return app


def _faust_app(settings: Settings, partitions: int) -> CoverSummApp:
    app = CoverSummApp(
        settings.app_id,
        broker=";".join(f"kafka://{server.strip()}" for server in settings.bootstrap_servers.split(",")),
        broker_credentials=broker_credentials(settings),
        Table=CommittedTable,
        store="rocksdb://",
        datadir=str(settings.data_dir),
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=settings.standby_replicas,
        recovery_consistency_check=False,
        consumer_auto_offset_reset="none",  # offsets outside the log are stopped at, never skipped
        broker_max_poll_records=settings.batch_size,
        consumer_max_fetch_size=MAX_FETCH_BYTES,
        broker_commit_interval=5.0,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.session_timeout_ms / 10_000,
        stream_buffer_maxsize=2,  # micro-batches
        stream_wait_empty=True,
        web_enabled=True,
        web_bind=settings.web_bind,
        web_port=settings.web_port,
        web_tables_enabled=False,
        canonical_url=settings.web_advertised_url or f"http://{settings.web_bind}:{settings.web_port}",
        logging_config=None,
    )
    app.transport = GuardedTransport(app.conf.broker_consumer, app)
    app.input_topic_name = settings.input_topic
    app.client_config = librdkafka_config(settings)
    app.linger_seconds = settings.batch_linger_ms / 1000
    return app


def librdkafka_config(settings: Settings) -> dict[str, Any]:
    """What every librdkafka client of the worker starts from; its own log goes where the worker's goes."""
    return {**settings.kafka_client_config(), "logger": logging.getLogger("librdkafka")}


def broker_credentials(settings: Settings) -> Any:
    """The Kafka security settings as Faust wants them (librdkafka's are `Settings.kafka_client_config`)."""
    context = settings.tls_context()
    if settings.security_protocol.startswith("SASL"):
        return SASLCredentials(
            username=settings.sasl_username,
            password=settings.sasl_password,
            mechanism=settings.sasl_mechanism,
            ssl_context=context,
        )
    return SSLCredentials(context) if context is not None else None


def check_faust() -> None:
    """Raise SurroundingsError when the installed Faust lacks a name that the delivery layer overrides or calls."""
    from importlib import import_module

    for place, names in _FAUST_NAMES.items():
        module, _, owner = place.partition(":")
        holder = getattr(import_module(module), owner, None)
        missing = [name for name in names if not hasattr(holder, name)]
        if missing:
            raise SurroundingsError(
                f"the installed faust-streaming has no {owner}.{missing[0]}: install the version that pyproject.toml pins"
            )


class _SignalledWorker(Worker):
    """Faust's worker with a shutdown deadline, and the exit code that tells Ctrl-C from a normal stop."""

    shutdown_seconds: float
    interrupted = False

    def _on_sigint(self) -> None:
        if self.interrupted:
            os._exit(130)  # a second Ctrl-C: now
        self.interrupted = True
        self._shut_down(signal.SIGINT)

    def _on_sigterm(self) -> None:
        self._shut_down(signal.SIGTERM)

    def _shut_down(self, received: signal.Signals) -> None:
        deadline = threading.Timer(
            self.shutdown_seconds, die, [Crash(f"the shutdown took longer than {self.shutdown_seconds:g} s")]
        )
        deadline.daemon = True
        deadline.start()
        self._flag_as_shutdown_by_signal()
        self._schedule_shutdown(received)


def run_worker(settings: Settings) -> int:
    """Run the worker until a signal; return the exit code. Raises SurroundingsError before it joins the group."""
    import uvloop

    asyncio.set_event_loop(uvloop.new_event_loop())
    app = build_app(settings)
    app.finalize()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what is loaded by now lives as long as the process
    gc.set_threshold(50_000, 20, 20)  # events make many objects and next to no cycles
    worker = _SignalledWorker(
        app, loop=asyncio.get_event_loop(), override_logging=False, redirect_stdouts=False, quiet=True
    )
    worker.spinner = None
    worker.shutdown_seconds = settings.shutdown_timeout_ms / 1000
    try:
        worker.execute_from_commandline()
    except SystemExit as end:
        # Faust ends with 1 when it could not start, because the broker is gone for one: a crash like any other.
        return 130 if worker.interrupted else 0 if end.code == 0 else Crash.exit_code
    return 0


def __getattr__(name: str) -> Any:
    """`app`, for Faust's own command line: built when it is first asked for, because that reads settings and asks the broker."""
    if name != "app":
        raise AttributeError(name)
    built = build_app(Settings.from_environment())
    globals()["app"] = built
    return built
