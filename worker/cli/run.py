"""`run`: the worker itself."""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from worker.cli.group import new_command
from worker.settings import Settings, unknown_settings
from worker.telemetry.logs import set_up_logging

log = logging.getLogger(__name__)


@contextmanager
def ending_at_sigterm() -> Iterator[None]:
    """End with exit code 0 at a SIGTERM that arrives during the start, when nothing is in flight. A
    container's first process would ignore it.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@new_command(
    "run",
    ("KAFKA_BOOTSTRAP_SERVERS=localhost:9092 coversumm-worker run", "on a Kafka of this machine"),
    (
        "COVERSUMM_DATA_DIR=/tmp/second COVERSUMM_WEB_PORT=8081 coversumm-worker run",
        "a second worker beside it: they share the partitions",
    ),
)
def command() -> int:
    """Run the worker on KAFKA_BOOTSTRAP_SERVERS until SIGTERM or Ctrl-C. It creates the output,
    dead letter and changelog topics with the input's partition count, never the input topic.
    """
    settings = Settings.from_environment()
    set_up_logging(settings)
    if unknown := unknown_settings():
        log.warning("%s", unknown)
    from worker.app import run_worker

    with ending_at_sigterm():
        return run_worker(settings)
