"""The records that dead letters were made of: from the letters themselves, or from their source where the letters are cut."""

from worker.events import Record
from worker.kafka.reader import TopicReader
from worker.operations.dead_letters import DeadLetter, NotTheOriginal, Source


class Impossible(Exception):
    """This letter cannot be sent; the message says why."""


def original(letter: DeadLetter, source_topic: TopicReader) -> Record:
    """The record that became the letter, with its place in the input topic. Raises Impossible."""
    source, wanted = letter.source, source_topic.topic
    if source is None:
        raise Impossible("its headers do not say where it came from")
    if source.topic != wanted:
        raise Impossible(f"it came from {source.topic}, the input topic is {wanted} (COVERSUMM_INPUT_TOPIC)")
    if source.partition not in source_topic.partitions:
        raise Impossible(f"{wanted} has no partition {source.partition}")
    if not letter.truncated:
        return Record(*source, letter.timestamp_ms, letter.key, letter.value)
    return _read(letter, source, source_topic)


def _read(letter: DeadLetter, source: Source, source_topic: TopicReader) -> Record:
    found = next(iter(source_topic.read(source.partition, source.offset, source.offset + 1)), None)
    if found is None or found.record.offset != source.offset:
        raise Impossible(f"it is cut, and its original at {source} is gone")
    try:
        letter.check_original(found.record)
    except NotTheOriginal as error:
        raise Impossible(f"it is cut, and {error} ({source}): the topic was created again") from error
    return found.record
