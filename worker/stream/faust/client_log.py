"""Filters messages of aiokafka and Faust about unreachable brokers and rebalances.

During an outage they come several times a second. Here they become the reason in the one line of
the worker's contact (`worker.stream.watchdog`). The takeover logs a rebalance. At DEBUG all of them
are logged.
"""

import logging
import ssl
from typing import Final

from aiokafka import errors

from worker.credentials.tokens import TokenRefused
from worker.kafka.clients import ContactErrors
from worker.kafka.contact import CONSUMER

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "faust.tables.recovery",
)
REFUSALS: Final = (
    TokenRefused,
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
"""What a broker refuses a client with after TLS."""
CAUSES: Final = (OSError, *REFUSALS)
"""Connection errors whose text is a reason."""
CONNECTION_ERRORS: Final = (
    *CAUSES,
    TimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.StaleMetadata,
    errors.GroupCoordinatorNotAvailableError,
    errors.GroupLoadInProgressError,
    errors.NotCoordinatorForGroupError,
)
CONSEQUENCES: Final = frozenset(
    {
        "Unable to update metadata from %s",
        "Marking the coordinator dead (node %s)for group %s.",
        "Heartbeat session expired - marking coordinator dead",
        "Heartbeat failed for group %s: coordinator (node %s) is either not started or not valid",
        "Heartbeat failed for group %s because it is rebalancing",
        "Heartbeat failed for group %s: generation id is not  current.",
        "Heartbeat failed: local member_id was not recognized; resetting and re-joining group",
    }
)
"""Messages without an error that follow from a lost connection or a rebalance."""
OVERTAKEN: Final = "Recovery rebalancing again"
"""The start of Faust's message when one rebalance interrupts another."""


class ConnectionErrors(logging.Filter):
    """A filter for `LOGGERS` that reports connection errors to the contact."""

    def __init__(self, report: ContactErrors) -> None:
        super().__init__()
        self._report = report

    def filter(self, record: logging.LogRecord) -> bool:
        """True if to log the message."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        found = [argument for argument in arguments if isinstance(argument, CONNECTION_ERRORS)]
        for error in found:
            cause = error.__cause__ or error  # of a connection that broke
            is_tls = isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)
            if is_tls or isinstance(cause, REFUSALS):
                self._report.refused(str(cause), is_tls=is_tls)
            elif isinstance(cause, CAUSES) and str(cause):
                self._report.contact.failed(CONSUMER, str(cause))
        is_known = bool(found) or record.msg in CONSEQUENCES or OVERTAKEN in str(record.msg)
        return not is_known or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def route_errors(report: ContactErrors) -> None:
    """Report aiokafka's connection errors to this contact, and to no former one."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for old in [
            old_filter for old_filter in logger.filters if isinstance(old_filter, ConnectionErrors)
        ]:
            logger.removeFilter(old)
        logger.addFilter(ConnectionErrors(report))
