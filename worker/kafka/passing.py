"""What passes by itself: errors of brokers that are away, start, or hand over what they lead.

A cluster does this every week: its brokers are restarted one after another, and with each the leaders of partitions and the
coordinators of groups and transactions move. Who meets such an error asks again.
"""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from worker.errors import Unanswered

PASSING: Final = frozenset(
    {
        # nobody answers
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY,  # a client that was replaced while someone waited for it
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        # whoever answers does not lead, or does not lead yet
        KafkaError.NOT_CONTROLLER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.KAFKA_STORAGE_ERROR,
        # too few replicas
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # a transaction is not decided yet
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        # "unexpected server error": what a broker that is shutting down says of what it was just doing
        KafkaError.UNKNOWN,
    }
)


def passes(error: BaseException) -> bool:
    """Whether what failed so may succeed when it is asked for again."""
    if isinstance(error, KafkaException):
        return error.args[0].code() in PASSING
    return isinstance(error, Unanswered)


def unanswered(what: str, error: KafkaError) -> Unanswered:
    """The error with what could not be found out, in one line."""
    return Unanswered(f"{what} ({error.name()}: {error.str()})")
