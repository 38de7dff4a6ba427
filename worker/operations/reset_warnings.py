"""What a worker that starts over would meet: input that is gone, and output that is published already."""

from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.reader import TIMEOUT_SECONDS, TopicReader, broker_errors
from worker.operations.published import publication
from worker.settings import Settings

SAMPLED = 1000
"""Messages of each output partition that are looked at for their epoch; a topic is meant to have one."""


def input_beginnings(settings: Settings) -> dict[int, int]:
    """By partition of the input topic, where its log begins now, if its first records were removed: they cannot be read again."""
    clients = KafkaClients(settings)
    if not _exists(clients, settings.input_topic):
        return {}
    with TopicReader(clients, settings.input_topic, settings.app_id) as reader:
        starts = {partition: reader.bounds(partition).start for partition in reader.partitions}
    return {partition: start for partition, start in starts.items() if start}


def published_epochs(settings: Settings) -> set[int]:
    """The epochs of what the output topic holds, by its first messages; empty where it holds none, or does not exist."""
    clients = KafkaClients(settings)
    if not _exists(clients, settings.output_topic):
        return set()
    epochs = set()
    with TopicReader(clients, settings.output_topic, settings.app_id) as reader:
        for partition in reader.partitions:
            start = reader.bounds(partition).start
            for stored in reader.read(partition, start, start + SAMPLED):
                body = publication(stored.record).body
                if body is not None:
                    epochs.add(body.epoch)
    return epochs


def _exists(clients: Clients, topic: str) -> bool:
    """Asked of all topics: asked for one alone, a broker may create it."""
    with broker_errors("no answer from the broker"):
        return topic in clients.admin().list_topics(timeout=TIMEOUT_SECONDS).topics
