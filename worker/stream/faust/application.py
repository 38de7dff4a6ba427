"""The worker as a Faust app: one agent on the input topic, one table, and what is in `StreamWorker`
between them.

input topic -> GuardedConsumer -> agent -> Delivery -> Processor
                                              |-> one Kafka transaction: output, dead letters, changelog, offsets
                                              `-> one RocksDB batch per partition
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import faust
from faust.app import BootStrategy
from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
from faust.auth import SASLCredentials, SSLCredentials

from worker.errors import SetupError
from worker.kafka.contact import ADMIN, PRODUCER
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.stream.assignment import Assignment
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.consumer import GuardedConsumer, GuardedTransport
from worker.stream.faust.table import CommittedTable
from worker.stream.journal import DeadLetterLog, Journal
from worker.stream.run_bounds import Ending
from worker.stream.status import WorkerStatus
from worker.stream.tracing import Tracing
from worker.stream.watchdog import ContactWatch, IdleClient, Watchdog
from worker.stream.worker import StreamWorker


class StaticAssignor(PartitionAssignor):
    """Takes an assignment that was made for this member's former web address, and lets the group
    hear of the new one.

    A worker that is back within its session gets the assignment of before, made when its address
    was another one. Faust takes that for an error inside, and would wait for ever.
    """

    def on_assignment(self, assignment: Any) -> None:
        """Take it. At another address the group is joined again: now with another description,
        which the others then get.
        """
        described = ClientMetadata.loads(self._decompress(assignment.user_data))
        moved = described.url != str(self._url)
        if moved:
            described.url = str(self._url)
            assignment.user_data = self._compress(described.dumps())
        super().on_assignment(assignment)
        if moved:
            self.app.consumer.join_again()


# What the guarded consumer, the table and its store override, call or rely on. All of it is checked
# at start, because Faust is free to rename any of it in another version.
FAUST_NAMES = {
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
        "verify_all_partitions_active",
    ),
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread": (
        "_consumer",
        "_create_worker_consumer",
        "_ensure_consumer",
        "on_start",
        "on_thread_stop",
        "seek",
    ),
    "aiokafka.client:AIOKafkaClient": ("_get_conn", "_get_conn_lock", "coordinator_lookup", "send"),
    "aiokafka.consumer.group_coordinator:GroupCoordinator": (
        "_push_error_to_user",
        "_send_req",
        "request_rejoin",
    ),
    "aiokafka.conn:AIOKafkaConnection": ("close", "send"),
    "faust.assignor.partition_assignor:PartitionAssignor": (
        "_compress",
        "_decompress",
        "_url",
        "on_assignment",
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
        "assign_partitions",
        "offset_key",
        "on_rebalance",
        "persisted_offset",
        "revoke_partitions",
        "stop",
    ),
}


# From one partition in one fetch: at Kafka's default of 1 MiB, events with embeddings come in
# fetches of some hundred. What was fetched of each waits for its turn: with many partitions all of
# it together is bounded. Less is no less whole: a broker hands over a batch of records even where
# it is larger.
MAX_FETCH_BYTES, MAX_FETCHED_BYTES = 4 * 2**20, 64 * 2**20
MIN_FETCH_BYTES = 64 * 2**10
# aiokafka would leave the group when it has not been asked for records for so long. What was
# fetched at once may take hours on a slow processor, commit by commit; whoever stands still is
# ended by the watchdog.
MAX_POLL_SECONDS = 86_400.0


# How often the consumer asks for the brokers, topics and partitions there are: every answer is a
# proof of contact, also while the group waits for a member. So soon, too, does a worker without
# work learn that its input has more partitions.
LONGEST_METADATA_AGE_MS = 60_000


def fetch_bytes(partitions: int) -> int:
    """The most bytes of one fetch from one of so many partitions."""
    return max(MIN_FETCH_BYTES, min(MAX_FETCH_BYTES, MAX_FETCHED_BYTES // partitions))


class _WithoutProducer(BootStrategy):
    """What is published is published by the worker's own transactions: Faust's producer would only
    be one more connection.
    """

    enable_kafka_producer = False


class CoverSummApp(faust.App):
    """A Faust app that is watched while it runs; `is_leaving` from the signal that ends it on."""

    logger = FAUST_LOG
    BootStrategy = _WithoutProducer
    consumer: GuardedConsumer
    dead_letters: DeadLetterLog
    journal: Journal
    assignment: Assignment
    status: WorkerStatus
    watchdog: Watchdog
    contact_watch: ContactWatch
    tracing: Tracing
    is_leaving = False
    ending: Ending | None = None
    """Of a bounded run."""
    end: Callable[[], None]
    """Ends the process in order."""

    async def on_started(self) -> None:
        """Start watching when the app runs."""
        await super().on_started()
        self.watchdog.start()
        self.contact_watch.start()
        self.add_future(self.watchdog.beat())
        self.add_future(self.dead_letters.tell_now_and_then())
        if self.ending is not None:
            self.add_future(self.ending.watch())

    def leave_off(self) -> None:
        """Begin nothing more: a commit under way is the last one. What else was fetched is read
        again by whoever comes next.
        """
        self.is_leaving = True
        self.assignment.leave_off()

    async def on_stop(self) -> None:
        """Stop watching; then stop."""
        self.watchdog.stop()
        self.contact_watch.stop()
        await super().on_stop()
        self.dead_letters.tell()


def faust_app(worker: StreamWorker) -> CoverSummApp:
    """The Faust app of a worker; not started yet."""
    settings, surroundings = worker.settings, worker.surroundings
    app = _configured(settings, worker.partitions)
    app.transport = GuardedTransport(app.conf.broker_consumer, app, worker)
    app.tables.add(
        CommittedTable(
            app,
            name=TABLE_NAME,
            key_type=bytes,
            value_type=bytes,
            partitions=worker.partitions,
            beacon=app.tables.beacon,
            takeover=worker.takeover,
            surroundings=surroundings,
        )
    )
    app.dead_letters, app.journal = worker.dead_letters, worker.assignment.journal
    app.assignment, app.tracing = worker.assignment, surroundings.tracing
    app.status = status = WorkerStatus(app, worker)
    if worker.bounds.ends:
        app.ending = Ending(
            worker.bounds,
            worker.assignment,
            lambda: app.end(),
            surroundings,
        )
    limit_seconds = settings.stall_timeout_ms / 1000
    app.contact_watch = ContactWatch(
        worker.contact,
        lambda: app.consumer.heard_at(),
        {
            PRODUCER: IdleClient(
                lambda seconds: worker.producer.ask(worker.logs.changelog.topic, seconds),
                worker.producer.suspect,
            ),
            ADMIN: IdleClient(worker.logs.ids.ask, worker.logs.ids.suspect),
        },
        surroundings.clock,
    )
    app.watchdog = Watchdog(
        status.stall, lambda: status.progressed_at, limit_seconds, surroundings.die
    )
    raw = {
        "key_type": bytes,
        "value_type": bytes,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }

    @app.agent(app.topic(settings.input_topic, **raw), name="summarize")
    async def summarize(stream: Any) -> None:
        async for event in stream.noack().events():
            # Faust's own bookkeeping: it waits for it at a rebalance.
            await worker.delivery.deliver(event.value, partial(stream.ack, event))

    return app


def _configured(settings: Settings, partitions: int) -> CoverSummApp:
    return CoverSummApp(
        settings.app_id,
        broker=";".join(
            f"kafka://{server.strip()}" for server in settings.bootstrap_servers.split(",")
        ),
        broker_credentials=broker_credentials(settings),
        store="rocksdb://",
        datadir=str(settings.data_dir),
        topic_partitions=partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=settings.standby_replicas,
        PartitionAssignor=StaticAssignor,
        recovery_consistency_check=False,
        consumer_auto_offset_reset="none",  # offsets outside the log are stopped at, never skipped
        broker_max_poll_records=settings.batch_size,
        consumer_max_fetch_size=fetch_bytes(partitions),
        consumer_metadata_max_age_ms=min(settings.broker_timeout_ms // 4, LONGEST_METADATA_AGE_MS),
        broker_max_poll_interval=MAX_POLL_SECONDS,
        broker_commit_interval=5.0,
        consumer_group_instance_id=settings.group_instance_id,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.session_timeout_ms / 10_000,
        stream_buffer_maxsize=1,  # micro-batches: one more is committed, one processed; a full one waits to come in here
        stream_wait_empty=True,
        web_enabled=True,
        web_bind=settings.web_bind,
        web_port=settings.web_port,
        web_tables_enabled=False,
        canonical_url=settings.web_advertised_url,
        logging_config=None,
    )


def broker_credentials(settings: Settings) -> Any:
    """The Kafka security settings as Faust wants them (librdkafka's are
    `Settings.kafka_client_config`).
    """
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
    """Raise SetupError when the installed Faust lacks a name that the delivery layer
    overrides or calls.
    """
    for place, names in FAUST_NAMES.items():
        module, _, owner = place.partition(":")
        holder = getattr(import_module(module), owner, None)
        missing = [name for name in names if not hasattr(holder, name)]
        if missing:
            library = "aiokafka" if module.startswith("aiokafka") else "faust-streaming"
            raise SetupError(
                f"the installed {library} has no {owner}.{missing[0]}: install the version that pyproject.toml pins"
            )
