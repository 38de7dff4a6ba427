"""The worker as a Faust app: one agent on the input topic, and one table.

input topic -> GuardedConsumer -> agent -> Delivery -> Processor
                                              |-> one Kafka transaction
                                              `-> one RocksDB batch per partition
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import faust
from faust.app import BootStrategy
from faust.stores.rocksdb import Store
from faust.tables.table import Table
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from yarl import URL

from worker.credentials.files import kafka_login
from worker.errors import Crash
from worker.kafka.contact import ADMIN, PRODUCER
from worker.settings import Settings
from worker.state import TABLE_NAME
from worker.storage.databases import PartitionDatabases, note_held
from worker.stream.bounded_reader import BoundedReader
from worker.stream.faust import FAUST_LOG
from worker.stream.faust.assignor import StaticAssignor
from worker.stream.faust.authentication import broker_credentials
from worker.stream.faust.consumer import GuardedConsumer, LiveReader
from worker.stream.run_bounds import Ending
from worker.stream.surroundings import Surroundings
from worker.stream.takeover import Takeover
from worker.stream.watchdog import ContactWatch, IdleClient, Watchdog
from worker.stream.worker import StreamWorker

MAX_FETCH_BYTES = 4 * 2**20
"""Most bytes of one partition in one fetch. Kafka's 1 MiB holds a few hundred embedded events."""
MAX_FETCHED_BYTES = 64 * 2**20  # bytes that fetches of all partitions may buffer
MIN_FETCH_BYTES = 64 * 2**10
"""Fewest bytes of one partition in one fetch. A larger batch of records still arrives complete."""
MAX_POLL_SECONDS = 86_400.0
"""Seconds without a poll until aiokafka leaves the group: a slow fetch may take hours to process.

The watchdog ends a worker without progress.
"""
LONGEST_METADATA_AGE_MS = 60_000
"""Longest time between two requests for metadata, which prove contact and show new partitions."""


def fetch_bytes(partitions: int) -> int:
    """The most bytes of one fetch from one of this many partitions."""
    return max(MIN_FETCH_BYTES, min(MAX_FETCH_BYTES, MAX_FETCHED_BYTES // partitions))


class GuardedTransport(driver.Transport):
    """Faust's aiokafka transport with the guarded consumer in it."""

    Consumer = GuardedConsumer

    def __init__(self, url: URL, app: faust.App, worker: StreamWorker) -> None:
        super().__init__(url, app)
        self.worker, self.login = worker, kafka_login(worker.settings)
        self.reader = BoundedReader if worker.bounds.ends else LiveReader


class _WithoutProducer(BootStrategy):
    """Starts no Faust producer: the worker's own transactions publish."""

    enable_kafka_producer = False


class CoverSummApp(faust.App):
    """A Faust app with its watchdog.

    `is_leaving` is True from the signal that ends it, `is_over` from the end of a bounded run.
    """

    logger = FAUST_LOG
    BootStrategy = _WithoutProducer
    consumer: GuardedConsumer
    stream_worker: StreamWorker
    watchdog: Watchdog
    watch_oldest: Callable[[], Awaitable[None]]
    contact_watch: ContactWatch
    is_leaving = is_over = False
    ending: Ending | None = None  # of a bounded run
    end: Callable[[], None]  # ends the process in order

    async def on_started(self) -> None:
        """Start watching when the app runs."""
        self.add_future(self.watch_oldest())
        await super().on_started()  # after the first restore
        self.watchdog.start()
        self.contact_watch.start()
        self.add_future(self.watchdog.beat())
        self.add_future(self.stream_worker.dead_letters.log_every_minute())
        if self.ending is not None:
            self.add_future(self.ending.watch())

    def leave_off(self) -> None:
        """Begin no more commits. The next owner reads again what was fetched and not committed."""
        self.is_leaving = True
        self.stream_worker.assignment.leave_off()

    async def on_stop(self) -> None:
        """Stop watching; then stop."""
        self.watchdog.stop()
        self.contact_watch.stop()
        await super().on_stop()
        self.stream_worker.dead_letters.log_counts()


def faust_app(worker: StreamWorker) -> CoverSummApp:
    """The Faust app of a worker, not started yet; `watchdog` and `watch_oldest` are to be set."""
    settings, surroundings = worker.settings, worker.surroundings
    app = _configured(settings, worker.partitions)
    app.transport = transport = GuardedTransport(app.conf.broker_consumer, app, worker)
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
    app.stream_worker = worker
    if worker.bounds.ends:
        app.ending = Ending(worker.bounds, worker.assignment, lambda: app.end(), surroundings)
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
        transport.login.current,
        partial(worker.logs.ids.ask, anew=True),
        settings.stall_timeout_ms / 1000,
        surroundings.die,
    )
    topic = app.topic(
        settings.input_topic,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )

    @app.agent(topic, name="summarize")
    async def summarize(stream: Any) -> None:
        async for event in stream.noack().events():
            # Faust waits at a rebalance until each event is acknowledged.
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
        consumer_auto_offset_reset="none",  # an offset outside the log is an error
        broker_max_poll_records=settings.batch_size,
        consumer_max_fetch_size=fetch_bytes(partitions),
        consumer_metadata_max_age_ms=min(settings.broker_timeout_ms // 4, LONGEST_METADATA_AGE_MS),
        broker_max_poll_interval=MAX_POLL_SECONDS,
        broker_commit_interval=5.0,
        consumer_group_instance_id=settings.group_instance_id,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.session_timeout_ms / 10_000,
        stream_buffer_maxsize=1,  # micro-batches, beside one in commit and one in processing
        stream_wait_empty=True,
        web_enabled=True,
        web_bind=settings.web_bind,
        web_port=settings.web_port,
        web_tables_enabled=False,
        canonical_url=settings.web_advertised_url,
        logging_config=None,
    )


class PartitionStore(Store):
    """Faust's store with one database per partition; the databases are the worker's own."""

    logger = FAUST_LOG

    def __init__(self, *args: Any, databases: PartitionDatabases, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._databases = databases

    def _db_for_partition(self, partition: int) -> Any:
        return self._databases.open(partition)

    async def assign_partitions(self, table: Any, tps: set[TP], generation_id: int = 0) -> None:
        """Nothing: Faust would open databases on the event loop. The takeover opens them itself."""

    def persisted_offset(self, tp: TP) -> int | None:
        """None: the takeover reads the stored offset itself."""
        return None

    def revoke_partitions(self, table: Any, tps: set[TP]) -> None:
        """Close the databases of partitions that are not held any more."""
        self._databases.close(
            [tp.partition for tp in tps if tp.topic in table.changelog_topic.topics]
        )

    async def stop(self) -> None:
        """Close all databases."""
        self._databases.close()


class CommittedTable(Table):
    """Faust's table, reduced to what this worker uses: Faust declares the changelog, assigns its
    partitions beside the input's, and reports rebalances and recoveries. A Kafka transaction
    commits the rows, and a takeover restores them.
    """

    logger = FAUST_LOG

    def __init__(
        self, *args: Any, takeover: Takeover, surroundings: Surroundings, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._takeover = takeover
        self._surroundings = surroundings

    def _new_store_by_url(self, url: Any) -> Store:
        return PartitionStore(
            url,
            self.app,
            self,
            table_name=self.name,
            key_type=bytes,
            value_type=bytes,
            options=self.options,
            databases=self._surroundings.databases,
        )

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Release everything before Faust closes and opens databases."""
        try:
            await self._takeover.let_go()
        except Exception as cause:
            self._surroundings.die(cause)
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def on_stop(self) -> None:
        """Release everything, then stop."""
        await self._takeover.let_go()
        await super().on_stop()

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Take over. Faust awaits this before it resumes the input, and swallows exceptions."""
        actives, standbys = ({tp.partition for tp in tps} for tps in (active_tps, standby_tps))
        await self._takeover.run(actives, standbys)
        with suppress(OSError):  # after the next start only the choice of partitions is worse
            note_held(Path(self.app.conf.datadir), actives | standbys)
        await super().on_recovery_completed(active_tps, standby_tps)

    def apply_changelog_batch(self, batch: Any) -> None:
        """End the process if there are rows: Faust reads uncommitted ones."""
        if batch:
            self._surroundings.die(
                Crash("Faust delivered changelog rows although the table restores itself")
            )
