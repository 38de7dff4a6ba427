"""Lines of files as records of a topic, for a mapping.

A line is a record with `value`, and possibly `key`, `headers`, `topic`, as `kcat -J` and archives
write it, or else a record's value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from worker.errors import SetupError
from worker.events import Record, Rejected
from worker.events.codec import is_framed
from worker.events.inputs import Body
from worker.mapping import TopicMapping
from worker.sources.archive_files import milliseconds

RECORD_MEMBERS: Final = {
    *("topic", "partition", "offset", "timestamp", "key", "headers", "value"),
    *("tstype", "ts", "broker", "payload"),
}
"""Members of a line that is a record, also one of `kcat -J`. Any other line is a record's value."""
NO_SCHEMA: Final = b"\0\0\0\0\1"
"""A frame before decoded keys."""


def mapping_of(
    topics: Mapping[str, TopicMapping], topic: str, place: str, remedy: str
) -> TopicMapping:
    """The mapping of the topic of a record, one in Python of any. Raises SetupError."""
    first = next(iter(topics.values()))
    if (mapping := topics.get(topic, first if first.is_of_any_topic else None)) is None:
        raise SetupError(
            f"{place}: the mapping has no topic {topic or 'for it'}, only {', '.join(topics)}: "
            f"{remedy}"
        )
    return mapping


@dataclass(frozen=True, slots=True)
class LineMapping:
    """The meaning of lines whose records are of mapped topics; see `RecordMapping`."""

    topics: Mapping[str, TopicMapping]
    needs_headers: bool = False  # a line has them
    digest: str = ""

    def read_all(self, record: Record) -> Sequence[Body]:
        """The events of the line that is the value. Raises BadEvent, and SetupError if it is of
        another topic.
        """
        mapping, source = self._source(record)
        return mapping.read_all(source)

    def explain(self, record: Record, rejected: Rejected) -> Rejected:
        """The rejection with the name of the rule in its detail."""
        mapping, source = self._source(record)
        return mapping.explain(source, rejected)

    def _source(self, record: Record) -> tuple[TopicMapping, Record]:
        source = record_of(record.value or b"", record.offset, self.topics)
        place = f"{record.topic}: line {record.offset + 1}"
        return mapping_of(self.topics, source.topic, place, "give the record its `topic`"), source


def record_of(line: bytes, number: int, topics: Mapping[str, TopicMapping]) -> Record:
    """The record of a line, with `number` as its offset if it names none. It is of the only one of
    these topics if it names none, and its key has the frame that keys of its topic have: a file has
    decoded records.
    """
    topic = next(iter(topics)) if len(topics) == 1 else ""
    line = line.strip()
    try:
        members = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        members = None
    if not isinstance(members, dict) or not _is_record(members):
        return Record(topic, 0, number, -1, None, line)
    value = members["value"] if "value" in members else members["payload"]
    try:
        moment = milliseconds(members.get("timestamp", members.get("ts")))
    except (TypeError, ValueError):
        moment = -1
    offset, key = members.get("offset", number), _bytes(members.get("key"))
    topic = str(members.get("topic", topic))
    if key is not None and not is_framed(key) and topic in topics and topics[topic].key == "framed":
        key = NO_SCHEMA + key
    return Record(
        topic,
        0,
        offset if type(offset) is int else number,
        moment,
        key,
        _bytes(value),
        tuple(_headers(members.get("headers"))),
    )


def _is_record(members: Mapping[str, Any]) -> bool:
    has_value = "value" in members or ("payload" in members and "topic" in members)
    return has_value and members.keys() <= RECORD_MEMBERS


def _headers(given: Any) -> Iterator[tuple[str, bytes | None]]:
    if isinstance(given, list):  # kcat's: name, value, name, value
        given = dict(zip(given[::2], given[1::2], strict=False))
    if isinstance(given, dict):
        yield from ((str(name), _bytes(value)) for name, value in given.items())


def _bytes(value: Any) -> bytes | None:
    """A text as it is; anything else as JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
