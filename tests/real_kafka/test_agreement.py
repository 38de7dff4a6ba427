"""A record that several processes fix at once, on a real Kafka: one is written, and few attempts
fence one another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from worker.errors import SetupError
from worker.kafka.agreement import AgreedRecord
from worker.kafka.clients import KafkaClients
from worker.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

PROCESSES = 6
MAKING_SECONDS = 0.5
"""A plan asks the broker for the offsets of all partitions."""


class CountingClients(KafkaClients):
    """Counts the producers: each attempt to write makes one."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.attempts = 0

    def producer(self, options: Mapping[str, Any]) -> Any:
        self.attempts += 1
        return super().producer(options)


def test_several_that_begin_at_once_agree_with_few_attempts(kafka: KafkaBroker) -> None:
    everybody = threading.Barrier(PROCESSES)
    clients = [
        CountingClients(Settings(bootstrap_servers=kafka.bootstrap_servers, app_id="agreement"))
        for _ in range(PROCESSES)
    ]

    def agree(number: int) -> bytes:
        def make() -> bytes:
            time.sleep(MAKING_SECONDS)
            return b"record of %d" % number

        record = AgreedRecord(clients[number], clients[number].admin(), "agreement-plan")
        everybody.wait(PATIENCE_SECONDS)
        return record.agree(make)

    with ThreadPoolExecutor(PROCESSES) as threads:
        found = list(threads.map(agree, range(PROCESSES)))
    record = AgreedRecord(clients[0], clients[0].admin(), "agreement-plan")
    assert {*found} == {record.read()}
    assert max(client.attempts for client in clients) <= 3


def test_of_two_that_look_for_each_others_record_at_most_one_stays(kafka: KafkaBroker) -> None:
    settings = Settings(bootstrap_servers=kafka.bootstrap_servers, app_id="agreement")
    names = ("agreement-a", "agreement-b")
    clients = KafkaClients(settings)
    records = [AgreedRecord(clients, clients.admin(), name) for name in names]
    both = threading.Barrier(2)

    def agree(own: AgreedRecord, other: AgreedRecord) -> bool:
        def make() -> bytes:
            both.wait(PATIENCE_SECONDS)
            return own.topic.encode()

        def look() -> None:
            if other.read() is not None:
                raise SetupError("both")

        with suppress(SetupError):
            return own.agree(make, look) == own.topic.encode()
        return False

    with ThreadPoolExecutor(2) as threads:
        stayed = list(threads.map(agree, records, reversed(records)))
    assert sum(stayed) <= 1
    assert [record.read() is not None for record in records] == stayed
