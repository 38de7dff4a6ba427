"""A Faust app as the worker builds it, without a broker: what consumer and table need of it and no more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust

from worker.stream.consumer import GuardedTransport
from worker.stream.table import ROCKSDB_OPTIONS, CommittedTable

INPUT = "reviews"


class End(Exception):
    """What `die` is in tests: it ends the flow of control, and it has the cause."""

    @property
    def cause(self) -> BaseException:
        """What the process would have ended with."""
        return self.args[0]


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
    app.client_config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    app.linger_seconds = 0
    app.on_restore_progress = lambda rows, remaining: None
    app.delivery = SimpleNamespace()
    return app


def make_table(app: Any) -> CommittedTable:
    """The worker's table on an app of `make_app`."""
    table = CommittedTable(
        app,
        name="entities",
        key_type=bytes,
        value_type=bytes,
        partitions=2,
        options=dict(ROCKSDB_OPTIONS),
    )
    return table
