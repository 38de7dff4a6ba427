"""The file that a replay writes: all published bodies in JSON, in order."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from operator import itemgetter
from struct import Struct as Packed
from typing import Final, NamedTuple

import msgspec

from worker.kafka.clients import Clients
from worker.kafka.reader import TopicReader
from worker.published.sorting import LastValues
from worker.registry.lookup import AsJson
from worker.replay.run import Replay

_WRITTEN: Final = Packed(">QIQ")
"""Key of a body in the order of writing: milliseconds, partition, place in the partition."""


class _Body(NamedTuple):
    """A published body in JSON. In a partition, bodies ascend by the first two fields."""

    sequence: int
    topic: int
    entity: bytes
    timestamp_ms: int
    value: bytes


class _Sequence(msgspec.Struct):
    sequence: int


_decode_sequence: Final = msgspec.json.Decoder(_Sequence).decode


def bodies_of(replay: Replay) -> Iterator[bytes]:
    """The bodies of the file that the request names, in order. Raises SetupError."""
    is_final = replay.names.request.emit == "final"
    in_order = in_order_of_entities if is_final else in_order_of_commits
    return in_order(replay.clients, replay.names.published_topics, AsJson(replay.settings))


def in_order_of_commits(
    clients: Clients, topics: Sequence[str], as_json: AsJson
) -> Iterator[bytes]:
    """All published bodies in JSON as they were written; those of one moment by partition, those of
    one event in the order of the topics.

    Clocks of workers may differ, but within a partition the order stays. Raises SetupError.
    """
    with _readers(clients, topics) as readers, LastValues() as bodies:
        for partition in readers[0].partitions:
            found = merge(
                *(_bodies(reader, partition, at, as_json) for at, reader in enumerate(readers))
            )
            latest_ms = 0
            for place, body in enumerate(found):
                latest_ms = max(latest_ms, body.timestamp_ms)
                bodies.put(_WRITTEN.pack(latest_ms, partition, place), body.value)
        for _, value in bodies:
            yield value


def in_order_of_entities(
    clients: Clients, topics: Sequence[str], as_json: AsJson
) -> Iterator[bytes]:
    """The last published body of each entity in JSON, by entity and topic. Raises SetupError."""
    with _readers(clients, topics) as readers, ExitStack() as opened:
        last = [opened.enter_context(LastValues()) for _ in readers]
        for at, (reader, bodies) in enumerate(zip(readers, last, strict=True)):
            for partition in reader.partitions:
                for body in _bodies(reader, partition, at, as_json):
                    bodies.put(body.entity, body.value)
        for _, value in merge(*last, key=itemgetter(0)):
            yield value


@contextmanager
def _readers(clients: Clients, topics: Sequence[str]) -> Iterator[list[TopicReader]]:
    with ExitStack() as opened:
        yield [opened.enter_context(TopicReader(clients, topic, topic)) for topic in topics]


def _bodies(reader: TopicReader, partition: int, topic: int, as_json: AsJson) -> Iterator[_Body]:
    """The bodies of a partition of the topic of this number, none written before the last one."""
    latest_ms = 0
    for stored in reader.read(partition):
        record = stored.record
        latest_ms = max(latest_ms, record.timestamp_ms)
        if record.value is not None:
            value = as_json(record).value or b""
            sequence = _decode_sequence(value).sequence
            yield _Body(sequence, topic, record.key or b"", latest_ms, value)
