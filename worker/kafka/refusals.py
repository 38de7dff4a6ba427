"""What a broker tells a consumer instead of records, as the exception that it ends with."""

from confluent_kafka import KafkaError, KafkaException

from worker.errors import SurroundingsError


def group_refused(group: str) -> Exception:
    """The same for a client that may not join its group, which another library found out."""
    return refusal(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), group)


def refusal(error: KafkaError, group: str, topic: str = "") -> Exception:
    """SurroundingsError that names the permission where one is missing; else KafkaException.

    A message with an error may have no partition and no offset, so the error is looked at first.
    """
    wanted = {
        KafkaError.GROUP_AUTHORIZATION_FAILED: f"group {group}",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: f"topic {topic}",
    }.get(error.code())
    if wanted is None:
        return KafkaException(error)
    return SurroundingsError(
        f"the broker does not let this client read as it must ({error.name()}): allow it READ on the {wanted}; "
        "`coversumm-worker config --check` has the command, and what else is missing"
    )
