"""Messages of aiokafka and Faust that say no more than that a broker cannot be reached, or that the
group is rebalancing.

Its fetcher, coordinator and client each say so several times a second while it lasts. Here they
become the reason in the one line that the worker's contact tells (`worker.stream.watchdog`); a
rebalance is told by who takes over. All of them are still logged at DEBUG, and everything else as
ever.
"""

import logging
from typing import Final

from aiokafka import errors

from worker.kafka.contact import CONSUMER, Contact

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "faust.tables.recovery",
)
CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.StaleMetadata,
    errors.GroupCoordinatorNotAvailableError,
    errors.GroupLoadInProgressError,
    errors.NotCoordinatorForGroupError,
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
CAUSES: Final = (
    OSError,
    errors.AuthenticationFailedError,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)
"""Those of them that say why."""
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
"""Messages without an error in them that only follow from a lost connection or a rebalance."""
OVERTAKEN: Final = "Recovery rebalancing again"
"""What Faust says, with numbers of its own behind it, where one rebalance comes upon another."""


class ConnectionErrors(logging.Filter):
    """A filter for `LOGGERS` that hands connection errors to the contact.

    Args:
        contact: is told why a broker cannot be reached.
    """

    def __init__(self, contact: Contact) -> None:
        super().__init__()
        self._contact = contact

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a message says something else."""
        found = [
            argument for argument in _arguments(record) if isinstance(argument, CONNECTION_ERRORS)
        ]
        for cause in found:
            if isinstance(cause, CAUSES) and str(cause):
                self._contact.failed(CONSUMER, str(cause))
        is_known = bool(found) or record.msg in CONSEQUENCES or OVERTAKEN in str(record.msg)
        return not is_known or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def route_errors(contact: Contact) -> None:
    """Let aiokafka's connection errors go to this contact, in place of any before it."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for old in [one for one in logger.filters if isinstance(one, ConnectionErrors)]:
            logger.removeFilter(old)
        logger.addFilter(ConnectionErrors(contact))


def _arguments(record: logging.LogRecord) -> tuple[object, ...]:
    return record.args if isinstance(record.args, tuple) else ()
