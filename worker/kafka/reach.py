"""The first question to a broker: whoever asks it gets an answer, or one line that says who does not answer, and why."""

from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined]

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients
from worker.kafka.diagnosis import Diagnosis
from worker.settings import Settings

TIMEOUT_SECONDS = 15.0
DENIED_SECONDS = 5.0
"""Where a broker answered and refused the client: so long a user may be about to be created."""
UNREACHABLE_SECONDS = 2.0
"""Where nothing listens, or the name is not known: for a tool, which somebody waits for."""


def ask_metadata(
    settings: Settings, admin: AdminClient, diagnosis: Diagnosis, *, timeout_seconds: float, patient: bool
) -> ClusterMetadata:
    """What a broker says of the cluster.

    Args:
        settings: name the brokers.
        admin: who asks.
        diagnosis: its error callback.
        timeout_seconds: the most it may take.
        patient: a broker that is not there yet may come, as where worker and broker are started together.

    Raises:
        SurroundingsError: no broker answers.
    """
    waited = 0.0
    for seconds in _waits(timeout_seconds, patient):
        waited += seconds
        try:
            return admin.list_topics(timeout=seconds)
        except KafkaException as cause:
            admin.poll(0)  # calls the error callback
            denied = diagnosis.denied and waited >= min(DENIED_SECONDS, timeout_seconds)
            if denied or (diagnosis.unreachable and not patient) or waited >= timeout_seconds:
                raise SurroundingsError(
                    f"no answer from KAFKA_BOOTSTRAP_SERVERS={settings.bootstrap_servers} within {waited:g} s "
                    f"({diagnosis.told or cause.args[0].str()}): {diagnosis.reason()}"
                ) from cause
    raise AssertionError("the last wait ends with an answer or an error")


def reached(settings: Settings, clients: Clients) -> Clients:
    """`clients`, once a broker has answered them: for a tool. Raises SurroundingsError where none does."""
    diagnosis = Diagnosis(settings)
    ask_metadata(
        settings, clients.admin(diagnosis), diagnosis, timeout_seconds=TIMEOUT_SECONDS, patient=False
    )
    return clients


def _waits(timeout_seconds: float, patient: bool) -> Iterator[float]:
    """Waits for one answer each: up to the moments at which giving up is thought about."""
    ends = [DENIED_SECONDS * number for number in range(1, int(timeout_seconds // DENIED_SECONDS) + 1)]
    ends += [] if patient else [UNREACHABLE_SECONDS]
    before = 0.0
    for end in sorted({*(end for end in ends if end < timeout_seconds), timeout_seconds}):
        yield end - before
        before = end
