"""aiokafka's messages about connections become the contact's reason; everything else is logged as
ever.
"""

from __future__ import annotations

import ast
import logging
import pkgutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka import errors
from faust.tables import recovery

from tests.harness.fake_clients import FakeClock
from worker.kafka.clients import ContactErrors
from worker.kafka.contact import Contact
from worker.settings import Settings
from worker.stream.faust.client_log import (
    CONSEQUENCES,
    LOGGERS,
    OVERTAKEN,
    route_errors,
)

LOG = logging.getLogger("tests.client_log")
REFUSED = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9092)")


def far_apart() -> FakeClock:
    """Every question is asked a while after the last."""
    clock = FakeClock()
    clock.tick_s = 100.0
    return clock


@pytest.fixture
def contact() -> Contact:
    made = Contact(1.0, far_apart())
    made.heard("consumer")
    return made


@pytest.fixture
def log(contact: Contact) -> Iterator[logging.Logger]:
    route_errors(ContactErrors(Settings(), contact, "consumer", LOG))
    logger = logging.getLogger(LOGGERS[0])
    before = logger.level
    yield logger
    logger.setLevel(before)
    for name in LOGGERS:
        logging.getLogger(name).filters.clear()


def reason(contact: Contact) -> str:
    silence = contact.silence()
    assert silence is not None
    return silence.reason


def test_a_refused_connection_is_the_reason_and_not_a_line(
    log: logging.Logger, contact: Contact, caplog: pytest.LogCaptureFixture
) -> None:
    log.error("Unable connect to node with id %s: %s", 1, REFUSED)
    assert caplog.records == []
    assert "Connect call failed ('127.0.0.1', 9092)" in reason(contact)


@pytest.mark.parametrize(
    "error",
    [
        errors.NodeNotReadyError("Attempt to send a request to node which is not ready"),
        errors.KafkaConnectionError("Connection at 127.0.0.1:9092 closed"),
        errors.RequestTimedOutError(),
        errors.GroupCoordinatorNotAvailableError(),
        TimeoutError(),
    ],
)
def test_what_only_follows_is_neither(
    error: Exception, log: logging.Logger, contact: Contact, caplog: pytest.LogCaptureFixture
) -> None:
    log.error("Failed fetch messages from %s: %s", 1, error)
    assert caplog.records == []
    assert reason(contact) == ""


def closed(cause: Exception) -> Exception:
    """What aiokafka makes of an alert: with TLS 1.3 it comes after the handshake."""
    error = errors.KafkaConnectionError("Connection at 127.0.0.1:9093 closed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.AuthenticationFailedError("wrong password"), "COVERSUMM_SASL_USERNAME"),
        (errors.UnsupportedSaslMechanismError("no PLAIN"), "COVERSUMM_SASL_MECHANISM"),
        (ssl.SSLError(1, "certificate verify failed: self-signed"), "COVERSUMM_SSL_CA_LOCATION"),
        (
            closed(ssl.SSLError(1, "sslv3 alert certificate unknown")),
            "COVERSUMM_SSL_CERTIFICATE_LOCATION",
        ),
        (closed(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")), None),
        (closed(ConnectionResetError(104, "Connection reset by peer")), None),
    ],
)
def test_a_broker_that_refuses_the_client_says_why_and_one_that_goes_away_does_not(
    error: Exception,
    words: str | None,
    log: logging.Logger,
    contact: Contact,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log.error("Unable connect to node with id %s: %s", 1, error)
    assert caplog.records == []
    contact.clock.tick_s = 0.0  # type: ignore[attr-defined]
    assert (contact.refusal() is None) is (words is None)
    assert (words or str(error.__cause__)) in reason(contact)


@pytest.mark.parametrize(
    "arguments",
    [
        ("Failed fetch messages from %s: %s", 1, errors.TopicAuthorizationFailedError("reviews")),
        ("Unexpected error while fetching data: %s", "CorruptRecordException"),
        ("Not authorized to read from topic %s.", "reviews"),
    ],
)
def test_other_errors_are_logged(
    arguments: tuple[Any, ...],
    log: logging.Logger,
    contact: Contact,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log.error(*arguments)
    assert len(caplog.records) == 1


def test_the_messages_without_an_error_are_those_of_the_installed_aiokafka() -> None:
    said = {
        node.value
        for source in Path(aiokafka.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert said >= CONSEQUENCES


def test_the_loggers_are_those_of_the_installed_aiokafka() -> None:
    made = set()
    for module in pkgutil.walk_packages(aiokafka.__path__, "aiokafka."):
        if module.name in ("aiokafka.client", "aiokafka.conn") or module.name.startswith(
            "aiokafka.consumer."
        ):
            loaded = __import__(module.name, fromlist=["log"])
            made |= {loaded.log.name} if hasattr(loaded, "log") else set()
    made.add(recovery.logger.name)
    assert set(LOGGERS) <= made
    assert OVERTAKEN in Path(recovery.__file__).read_text()


def test_a_rebalance_upon_a_rebalance_is_reported_by_who_takes_over(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    recovery.logger.warning("[^---Recovery]: Recovery rebalancing again app id 5 param 4")
    assert caplog.records == []
    recovery.logger.warning("[^---Recovery]: something else")
    assert len(caplog.records) == 1
