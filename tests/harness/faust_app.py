"""A Faust app as the worker builds it, without a broker: what consumer and table need of it and no more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust

from tests.harness.fake_clients import FakeClients
from worker.storage.databases import Databases
from worker.stream.consumer import GuardedTransport
from worker.stream.table import CommittedTable

INPUT = "reviews"


class End(Exception):
    """What `die` is in tests: it ends the flow of control, and it has the cause."""

    @property
    def cause(self) -> BaseException:
        """What the process would have ended with."""
        return self.args[0]


class Ids:
    """Which topics there are, as `worker.kafka.topic_ids` tells it; by default nobody tells."""

    def __init__(self, **told: str) -> None:
        self.told = told
        self.failure: Exception | None = None
        self.life_ms: int | None = None

    def read(self) -> None:
        """Nothing to ask."""

    def known(self, topic: str) -> str:
        """The id a test gave the topic."""
        return self.told.get(topic, "")

    def tombstone_life_ms(self, topic: str) -> int | None:
        """What a test says."""
        return self.life_ms

    def check(self) -> None:
        """Raise what a test wants."""
        if self.failure:
            raise self.failure


def die(cause: BaseException) -> None:
    """Stands for `worker.stream.fatal.die`; a second call keeps the first cause."""
    raise cause if isinstance(cause, End) else End(cause)


def make_app(data_dir: Path, **options: Any) -> Any:
    """The app with the guarded transport; not started, and with nobody behind its address."""
    app = faust.App(
        "tests",
        broker="kafka://127.0.0.1:1",
        store="rocksdb://",
        datadir=str(data_dir),
        topic_partitions=2,
        topic_allow_declare=False,
        consumer_auto_offset_reset="none",
        broker_max_poll_records=10,  # what FakeThread of test_consumer gives at most,
        **options,
    )
    app.transport = GuardedTransport(app.conf.broker_consumer, app)
    app.input_topic_name = INPUT
    app.clients = FakeClients()
    app.linger_seconds = 0
    app.on_restore_progress = lambda rows, remaining: None
    app.delivery = SimpleNamespace()
    app.topic_ids = Ids()
    return app


def make_table(app: Any) -> CommittedTable:
    """The worker's table on an app of `make_app`."""
    table = CommittedTable(
        app,
        name="entities",
        key_type=bytes,
        value_type=bytes,
        partitions=2,
    )
    table.data.rocksdb_options = Databases(64 * 2**20, 2)
    return table
