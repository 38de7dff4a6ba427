"""Dead letters: their headers, selections of them, and their original records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from worker.settings import Settings

if TYPE_CHECKING:
    from worker.events import Record
    from worker.kafka.reader import Stored, TopicReader

SENT, ALREADY_SENT, IMPOSSIBLE = "sent", "already sent", "impossible"


class Place(NamedTuple):
    """The place of a dead letter in its topic; written `PARTITION:OFFSET`."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class LetterOrigin(NamedTuple):
    """The record that became a dead letter."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the dead letter topic. Without the headers of a worker it cannot be sent."""

    place: Place
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]

    @classmethod
    def of(cls, stored: Stored) -> DeadLetter:
        """Read it from a message of the topic."""
        _, partition, offset, timestamp_ms, key, value, *_ = stored.record
        return cls(Place(partition, offset), timestamp_ms, key, value, stored.headers)

    @property
    def reason(self) -> str:
        """The reason code."""
        return self._text("dlq.reason")

    @property
    def detail(self) -> str:
        """One line for people, which names the field."""
        return self._text("dlq.detail")

    @property
    def time(self) -> str | None:
        """The time it was written, RFC 3339 in UTC."""
        from worker.events.messages import timestamp

        return timestamp(self.timestamp_ms)

    @property
    def source(self) -> LetterOrigin | None:
        """The original record's place; None without these headers."""
        topic = self._text("dlq.source.topic")
        partition = self._number("dlq.source.partition")
        offset = self._number("dlq.source.offset")
        if not topic or partition is None or offset is None:
            return None
        return LetterOrigin(topic, partition, offset)

    @property
    def truncated(self) -> bool:
        """True if the key or value was cut, or headers were dropped."""
        from worker.events import TRUNCATED_HEADERS

        return not self.headers.keys().isdisjoint(TRUNCATED_HEADERS)

    @property
    def attempts(self) -> int:
        """The number of times its record was sent again before it became this letter."""
        return self._number("dlq.attempts") or 0

    def again(self, record: Record) -> Record:
        """Its record as it is sent now: a header counts the attempts."""
        others = (header for header in record.headers if header[0] != "dlq.attempts")
        counted = ("dlq.attempts", b"%d" % (self.attempts + 1))
        return record._replace(headers=(*others, counted))

    @property
    def own_headers(self) -> tuple[tuple[str, bytes], ...]:
        """The headers of the original record, which a worker keeps if its mapping reads headers."""
        return tuple((name, raw) for name, raw in self.headers.items() if name[:4] != "dlq.")

    @property
    def original_bytes(self) -> int | None:
        """Length of the original value; None for a null value."""
        cut = self._number("dlq.truncated_bytes") or 0
        return None if self.value is None else len(self.value) + cut

    def difference(self, record: Record) -> str | None:
        """The part in which the record differs from the original; None if it can be it."""
        for name, kept, found, cut_by in (
            ("key", self.key, record.key, self._number("dlq.truncated_key_bytes") or 0),
            ("value", self.value, record.value, self._number("dlq.truncated_bytes") or 0),
        ):
            if (kept is None) != (found is None) or (
                kept is not None
                and found is not None
                and not (found.startswith(kept) and len(found) == len(kept) + cut_by)
            ):
                return name
        return None

    def describe(self) -> dict[str, object]:
        """The fields of `dlq list`, in order."""
        return {
            "partition": self.place.partition,
            "offset": self.place.offset,
            "time": self.time,
            "reason": self.reason,
            "detail": self.detail,
            "source": None if self.source is None else str(self.source),
            "key": None if self.key is None else self.key.decode("utf-8", "backslashreplace"),
            "bytes": self.original_bytes,
            "truncated": self.truncated,
            "attempts": self.attempts,
        }

    def _text(self, name: str) -> str:
        return (self.headers.get(name) or b"").decode("utf-8", "backslashreplace")

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """A selection of dead letters: those that match all given criteria."""

    reasons: frozenset[str] = frozenset()
    since_ms: int | None = None
    entity_id: str | None = None
    places: frozenset[Place] = frozenset()
    max_attempts: int | None = None

    def __contains__(self, letter: DeadLetter) -> bool:
        return (
            (not self.reasons or letter.reason in self.reasons)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (
                self.entity_id is None
                or letter.key == self.entity_id.encode(errors="surrogateescape")
            )
            and (not self.places or letter.place in self.places)
            and (self.max_attempts is None or letter.attempts < self.max_attempts)
        )

    def span(self, partition: int) -> range | None:
        """The range of selected offsets in a partition; None: any."""
        offsets = [place.offset for place in self.places if place.partition == partition]
        if offsets:
            return range(min(offsets), max(offsets) + 1)
        return range(0) if self.places else None


class Impossible(Exception):
    """A letter cannot be sent, for the reason in the message."""


def original(letter: DeadLetter, source_topic: TopicReader) -> Record:
    """The original record with its place in the input topic. Raises Impossible."""
    from worker.events import Record

    source, wanted = letter.source, source_topic.topic
    if source is None:
        raise Impossible("its headers do not say where it came from")
    if source.topic != wanted:
        raise Impossible(
            f"it came from {source.topic}, the input topic is {wanted} (COVERSUMM_INPUT_TOPIC)"
        )
    if source.partition not in source_topic.partitions:
        raise Impossible(f"{wanted} has no partition {source.partition}")
    if missing := letter._text("dlq.missing"):
        raise Impossible(f"it lacks {missing} of its record, which could not be read")
    if not letter.truncated:
        return Record(*source, letter.timestamp_ms, letter.key, letter.value, letter.own_headers)
    found = next(iter(source_topic.read(source.partition, source.offset, source.offset + 1)), None)
    if found is None or found.record.offset != source.offset:
        raise Impossible(f"it is cut, and its original at {source} is gone")
    if other := letter.difference(found.record):
        raise Impossible(
            f"it is cut, and the record at its source has another {other} ({source}): the topic "
            "was created again"
        )
    is_complete = "dlq.dropped_headers" not in letter.headers
    headers = letter.own_headers if is_complete else tuple(found.headers.items())
    return found.record._replace(headers=headers)


def open_letters(settings: Settings) -> TopicReader:
    """A reader of the dead letter topic, in the group that stores what was sent."""
    from worker.kafka.reader import TopicReader
    from worker.kafka.topics import reached

    clients = reached(settings)
    return TopicReader(clients, settings.dlq_topic, group_of(settings))


def group_of(settings: Settings) -> str:
    """The group that stores what was sent; also the transactional id of `dlq send`."""
    return f"{settings.app_id}-dlq"
