"""The first question to a broker: how long it waits, and what it says when nobody answers."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.harness.node import free_port
from worker.errors import SetupError
from worker.kafka.errors import Diagnosis
from worker.kafka.topics import ask_metadata, reached
from worker.settings import Settings


class Admin:
    """Nobody answers: every wait is noted, and the error callback gets what a real client would
    tell.
    """

    def __init__(self, diagnosis: Diagnosis, *errors: KafkaError) -> None:
        self._diagnosis = diagnosis
        self._errors = errors
        self.waits: list[float] = []

    def list_topics(self, timeout: float) -> object:
        self.waits.append(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))

    def poll(self, timeout: float) -> int:
        for error in self._errors:
            self._diagnosis(error)
        return 0


REFUSED = KafkaError(
    KafkaError._TRANSPORT, "h:1/bootstrap: Connect to ipv4#h:1 failed: Connection refused"
)
UNKNOWN = KafkaError(
    KafkaError._RESOLVE, "h:1/bootstrap: Failed to resolve 'h:1': Name or service not known"
)
DENIED = KafkaError(KafkaError._AUTHENTICATION, "Authentication failed")


@pytest.mark.parametrize(
    ("errors", "patient", "waits"),
    [
        ([REFUSED], False, [2.0]),
        ([UNKNOWN], False, [2.0]),
        ([REFUSED], True, [1.0, 4.0, 5.0, 5.0]),
        ([DENIED], False, [2.0, 3.0]),
        ([DENIED], True, [1.0, 4.0]),
        ([], False, [2.0, 3.0, 5.0, 5.0]),
        ([], True, [1.0, 4.0, 5.0, 5.0]),
    ],
)
def test_giving_up_depends_on_what_went_wrong_and_who_waits(
    errors: list[KafkaError], patient: bool, waits: list[float]
) -> None:
    settings = Settings(bootstrap_servers="h:1")
    diagnosis = Diagnosis(settings)
    admin = Admin(diagnosis, *errors)
    with pytest.raises(SetupError, match=f"KAFKA_BOOTSTRAP_SERVERS=h:1 within {sum(waits):g} s"):
        ask_metadata(settings, admin, diagnosis, patient=patient)  # type: ignore[arg-type]
    assert admin.waits == waits


@pytest.mark.parametrize("patient", [True, False])
def test_a_start_logs_once_that_it_waits_and_a_tool_never(
    patient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(bootstrap_servers="h:1")
    diagnosis = Diagnosis(settings)
    with pytest.raises(SetupError):
        ask_metadata(
            settings,
            Admin(diagnosis, REFUSED),  # type: ignore[arg-type]
            diagnosis,
            patient=patient,
        )
    assert (
        caplog.messages
        == [
            "no answer yet from KAFKA_BOOTSTRAP_SERVERS=h:1 "
            "(h:1: Connect to ipv4#h:1 failed: Connection refused): waiting up to 15 s"
        ]
        * patient
    )


def test_the_name_that_is_not_known_is_said() -> None:
    settings = Settings(bootstrap_servers="no.such.host.invalid:9092")
    with pytest.raises(
        SetupError,
        match=r"Failed to resolve 'no\.such\.host\.invalid:9092'.*check the address",
    ):
        reached(settings)


def test_a_tool_knows_within_seconds_that_nothing_listens() -> None:
    settings = Settings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(
        SetupError,
        match=r"within 2 s \(.*Connection refused\): check the address, the network",
    ):
        reached(settings)
    assert time.monotonic() - started < 15.0  # what it took before
