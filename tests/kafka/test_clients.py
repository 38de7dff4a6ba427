"""The clients of the worker and of the tools, on the embedded broker."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.harness.embedded import embedded_broker
from tests.harness.eventually import eventually
from worker.kafka.clients import READ_TO_END, SILENT, WORKER_LOG, KafkaClients
from worker.settings import Settings

__all__ = ["embedded_broker"]

NOBODY = Settings(bootstrap_servers="127.0.0.1:1")


def test_clients_are_made_in_no_other_place() -> None:
    made = {"Consumer", "Producer", "AdminClient"}
    worker = Path(__file__).resolve().parents[2] / "worker"
    found = {
        str(path.relative_to(worker))
        for path in worker.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in made
    }
    assert found == {"kafka/clients.py"}


def test_an_offset_outside_the_log_is_an_error_to_who_reads_to_the_end(
    embedded_broker: Any,
) -> None:
    embedded_broker.create_topic("in", 1)
    clients = KafkaClients(Settings(bootstrap_servers=embedded_broker.bootstrap_servers))
    consumer = clients.standalone_consumer("group", "read_committed", READ_TO_END)
    try:
        consumer.assign([TopicPartition("in", 0, 500)])
        found: list[Any] = []
        eventually(lambda: found.extend(consumer.consume(10, 0.1)) or found)
        assert found[0].error().code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()


def test_an_admin_client_tells_its_errors_to_who_asks_for_them() -> None:
    errors: list[KafkaError] = []
    admin = KafkaClients(NOBODY, SILENT).admin(errors.append)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    eventually(lambda: admin.poll(0.1) or errors)


class Heard(logging.Handler):
    """What reaches the root logger."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize(
    ("log", "level", "heard"),
    [(WORKER_LOG, "DEBUG", True), (WORKER_LOG, "INFO", False), (SILENT, "DEBUG", False)],
)
def test_that_no_broker_is_reached_is_logged_for_the_worker_at_debug_and_for_the_tools_nowhere(
    log: logging.Logger, level: str, heard: bool
) -> None:
    """Once for each try of each client it would be: the worker's contact tells it, and a tool's
    last line.
    """
    before = log.level
    log.setLevel(level)
    handler = Heard()
    logging.getLogger().addHandler(handler)
    try:
        producer = KafkaClients(NOBODY, log).producer({})
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=1)
        producer.poll(0.5)
    finally:
        logging.getLogger().removeHandler(handler)
        log.setLevel(before)
    assert any("refused" in record.getMessage() for record in handler.records) is heard


def test_any_record_passes_the_filter_whatever_its_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", WORKER_LOG.name):
        WORKER_LOG.info("one: %s", "argument")
        WORKER_LOG.info("none")
    assert [record.getMessage() for record in caplog.records] == ["one: argument", "none"]
