"""librdkafka's messages that say no more than that a broker cannot be reached.

Every client says so for itself, several times a second, for as long as it lasts. The worker says it once, by its contact
(`worker.kafka.contact`), and a tool in the line that it ends with. They are still logged at DEBUG.
"""

import logging
from typing import Final

from confluent_kafka import KafkaError

from worker.kafka.contact import Contact
from worker.kafka.diagnosis import Diagnosis, plain
from worker.settings import Settings

CODES: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    }
)
"""Errors about reaching a broker."""
FACILITIES: Final = frozenset(
    {"FAIL", "FATAL", "REQTMOUT", "GETPID", "TXNERR", "ADDPARTS", "ADDOFFSETS", "ENDTXN"}
)
"""What librdkafka calls its messages about a connection that failed, requests that timed out with it, a transactional id that a
coordinator does not give out yet, and steps of a transaction that failed, for good where another client took its id: whoever
called is told, and tells it."""


def is_new(record: logging.LogRecord) -> bool:
    """A filter for librdkafka's logger: whether a message says more than that a broker cannot be reached."""
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else ""
    return facility not in FACILITIES or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


class ErrorLog:
    """An error callback of librdkafka: it logs what is not about reaching a broker, as librdkafka does without one."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def __call__(self, error: KafkaError) -> None:
        """Log an error."""
        level = logging.DEBUG if error.code() in CODES else logging.ERROR
        self._log.log(level, "%s: %s", error.name(), error.str())


class ContactErrors(ErrorLog):
    """The same for a client whose contact is watched: why no broker is reached becomes the reason there.

    Args:
        settings: name what to look at.
        contact: is told the reason.
        client: whose errors they are.
        log: gets the other errors.
    """

    def __init__(self, settings: Settings, contact: Contact, client: str, log: logging.Logger) -> None:
        super().__init__(log)
        self._settings = settings
        self._contact = contact
        self._client = client

    def __call__(self, error: KafkaError) -> None:
        """Log an error, or tell the contact of it."""
        super().__call__(error)
        if reason := reason_of(self._settings, error):
            self._contact.failed(self._client, reason)


def reason_of(settings: Settings, error: KafkaError) -> str:
    """Why a broker cannot be reached, by an error of a client; empty where it does not say, or is about something else."""
    if error.code() not in CODES or error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
        return ""
    diagnosis = Diagnosis(settings)
    diagnosis(error)
    return diagnosis.reason() if diagnosis.denied else plain(error.str())
