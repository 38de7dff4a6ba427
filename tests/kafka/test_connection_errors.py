"""Which of librdkafka's messages and errors only say that a broker cannot be reached."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError

from tests.harness.fake_clients import FakeClock
from tests.harness.identity import oauth_settings
from worker.credentials.tokens import TokenError, TokenRefused, kafka_tokens
from worker.kafka.clients import ContactErrors, is_new, log_error
from worker.kafka.contact import Contact
from worker.kafka.errors import plain
from worker.settings import Settings

LOG = logging.getLogger("tests.librdkafka")
REFUSED = (
    "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused "
    "(after 0ms in state CONNECT)"
)


def record(facility: str) -> logging.LogRecord:
    """A record as confluent-kafka makes it."""
    return LOG.makeRecord(
        LOG.name, logging.ERROR, "", 0, "%s [%s] %s", (facility, "name", "text"), None
    )


@pytest.mark.parametrize(
    ("facility", "new"),
    [("FAIL", False), ("REQTMOUT", False), ("FATAL", False), ("TXNERR", False), ("CONFWARN", True)],
)
def test_messages_about_connections_are_no_news_others_are(facility: str, new: bool) -> None:
    LOG.setLevel(logging.INFO)
    assert is_new(record(facility)) is new
    LOG.setLevel(logging.DEBUG)
    assert is_new(record(facility))


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (KafkaError._TRANSPORT, logging.DEBUG),
        (KafkaError._ALL_BROKERS_DOWN, logging.DEBUG),
        (KafkaError._RESOLVE, logging.DEBUG),
        (KafkaError._FATAL, logging.ERROR),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, logging.ERROR),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, logging.ERROR),
    ],
)
def test_errors_that_are_not_about_connections_are_logged(
    code: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    LOG.setLevel(logging.DEBUG)
    log_error(LOG, KafkaError(code, "why"))
    assert [(line.levelno, "why" in line.getMessage()) for line in caplog.records] == [
        (level, True)
    ]


@pytest.mark.parametrize(
    ("code", "text", "reason", "is_refusal"),
    [
        (KafkaError._TRANSPORT, REFUSED,
         "127.0.0.1:9092: Connect to ipv4#127.0.0.1:9092 failed: Connection refused", False),
        (KafkaError._RESOLVE, "h:1/bootstrap: Failed to resolve 'h:1': not known",
         "h:1: Failed to resolve 'h:1': not known", False),
        (KafkaError._SSL, "certificate verify failed",
         "is not signed by an authority of COVERSUMM_SSL_CA_LOCATION", True),
        (KafkaError._AUTHENTICATION, "Authentication failed", "COVERSUMM_SASL_USERNAME=worker",
         True),
        # a proxy without a broker behind it
        (KafkaError._SSL, "SSL handshake failed: Disconnected: a PLAINTEXT broker listener?",
         "does not speak TLS", False),
        (KafkaError._AUTHENTICATION, "SASL PLAIN mechanism handshake failed: Local: Timed out",
         "COVERSUMM_SASL_MECHANISM", False),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down", "", False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorised", "", False),
    ],
)  # fmt: skip
def test_an_error_about_a_connection_becomes_the_reason_of_the_contact(
    code: int, text: str, reason: str, is_refusal: bool
) -> None:
    settings = Settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="worker",
        sasl_password="MARKER",
    )
    clock = FakeClock()
    clock.tick_s = 100.0
    contact = Contact(1.0, clock)
    contact.heard("admin")
    ContactErrors(settings, contact, "admin", LOG)(KafkaError(code, text))
    clock.tick_s = 0.0
    assert (contact.refusal() is not None) is is_refusal
    clock.tick_s = 100.0
    silence = contact.silence()
    assert silence is not None
    assert reason in silence.reason
    assert bool(silence.reason) is bool(reason)
    assert "MARKER" not in silence.reason


def test_a_provider_that_is_away_refuses_nobody() -> None:
    settings = oauth_settings("https://127.0.0.1:1/token")
    tokens = kafka_tokens(settings)
    assert tokens is not None
    error = KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token")
    for failed, refuses in ((None, True), (TokenRefused("401"), True), (TokenError("503"), False)):
        tokens.failed, contact = failed, Contact(1.0)
        ContactErrors(settings, contact, "admin", LOG)(error)
        assert (contact.refusal() is not None) is refuses


def test_a_message_is_plain_without_the_state_of_its_connection() -> None:
    assert (
        plain(REFUSED)
        == "127.0.0.1:9092: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"
    )
    assert plain("sasl_ssl://b-1.example:9094/2: SASL: no") == "b-1.example:9094: SASL: no"
    assert plain("something else") == "something else"
