"""The files of an archive: what is common to all formats, and JSON lines, a record per line.

A file has pieces, each of one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from worker.errors import SetupError
from worker.events import Record, dates
from worker.events.bare import read_row
from worker.events.reasons import shown
from worker.sources.columns import BAD_ROW, Entry, Faulty
from worker.sources.opened import UNREADABLE, OpenedFile

TOPIC, PARTITION, OFFSET = "topic", "partition", "offset"
TIMESTAMP, KEY, VALUE = "timestamp", "key", "value"
COORDINATES: Final = (TOPIC, PARTITION, OFFSET)
"""Columns that a file of an archive must have."""
MOST_SORTED_BYTES: Final = 2**28
"""Largest piece that is sorted in memory."""
NO_TIMESTAMP: Final = -1
MOST_DIGITS: Final = 20
"""Most characters of a number as text; longer ones are not parsed."""
_LINES_LOOKED_AT: Final = 10
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Topic:
    """The one topic of an archive."""

    name = ""

    def check(self, name: str, file: str) -> None:
        """Raise SetupError if `file` has records of another topic than the files before."""
        self.name = self.name or name
        if name != self.name:
            raise SetupError(
                f"{file} has records of the topic {name}, before it came {self.name}: name the "
                "files of one topic"
            )


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition, in a row group or a file, with offsets `first` to `last`."""

    source: ArchiveFile
    partition: int
    first: int
    last: int
    group: int = 0
    """Row group of Parquet."""
    begin: int = 0
    """Rows of the file before this row group."""


@dataclass
class ArchiveFile:
    """A file of an archive; `fields` has columns by field.

    Its methods raise SetupError where it cannot be read.
    """

    name: str
    fields: Mapping[str, str]
    topic: Topic

    def is_archived(self) -> bool:
        """True if its columns, or one of its first lines, are those of an archive."""
        raise NotImplementedError

    def pieces(self) -> Iterator[Piece]:
        """Its pieces. Raises SetupError if it is not an archive or of another topic."""
        raise NotImplementedError

    def faults(self) -> Iterator[Faulty]:
        """Rows without coordinates, and broken rows."""
        raise NotImplementedError

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Entry]]:
        """A piece's records from offset `start` on, sorted, with their offsets."""
        raise NotImplementedError

    def check_sortable(self, held: int) -> None:
        """Raise SetupError if `held` bytes are too many to sort in memory."""
        if held > MOST_SORTED_BYTES:
            raise SetupError(
                f"{self.name} is not in order of offsets, and too large to put it in order in "
                f"memory ({held / 2**20:,.0f} MiB in one piece): sort it by partition and offset, "
                "or split it"
            )

    def check_coordinates(self, columns: Collection[str]) -> None:
        """Raise SetupError unless these columns are those of an archive."""
        if missing := [column for column in COORDINATES if column not in columns]:
            raise SetupError(
                f"{self.name} is not an archive of a topic: it has no {', '.join(missing)}"
            )


class _Line(Struct):
    """A record as a line of JSON; kcat calls timestamp and value `ts` and `payload`."""

    topic: str
    partition: _Number
    offset: _Number
    timestamp: int | str | None = None
    ts: int | None = None
    key: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    payload: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line).decode


@dataclass
class ArchivedLines(ArchiveFile):
    """JSON lines, plain or packed."""

    disordered: set[int] = field(default_factory=set)
    """The partitions whose records are not in order of offsets."""

    def is_archived(self) -> bool:
        try:
            return any(
                isinstance(entry, Record) for entry in islice(self._entries(), _LINES_LOOKED_AT)
            )
        except SetupError:
            return False

    def pieces(self) -> Iterator[Piece]:
        found: dict[int, tuple[int, int, int]] = {}
        is_empty = True
        for entry in self._entries():
            is_empty = False
            if isinstance(entry, Faulty):
                continue
            self.topic.check(entry.topic, self.name)
            offset = entry.offset
            first, last, previous = found.get(entry.partition, (offset, offset, offset))
            if offset < previous:
                self.disordered.add(entry.partition)
            found[entry.partition] = min(first, offset), max(last, offset), offset
        if not (is_empty or found):
            self.check_coordinates(())
        for partition, (first, last, _) in found.items():
            yield Piece(self, partition, first, last)

    def faults(self) -> Iterator[Faulty]:
        return (entry for entry in self._entries() if isinstance(entry, Faulty))

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Entry]]:
        records: Iterable[Record] = (
            entry
            for entry in self._entries()
            if isinstance(entry, Record)
            and entry.partition == piece.partition
            and entry.offset >= start
        )
        if piece.partition in self.disordered:
            records = self._sorted(records)
        return ((record.offset, record) for record in records)

    def _sorted(self, records: Iterable[Record]) -> list[Record]:
        held, kept = 0, []
        for record in records:
            held += len(record.key or b"") + len(record.value or b"")
            self.check_sortable(held)
            kept.append(record)
        return sorted(kept, key=attrgetter("offset"))

    def _entries(self) -> Iterator[Entry]:
        try:
            with OpenedFile(self.name, self.name, COORDINATES) as file:
                if file.format.kind != "json":
                    self.check_coordinates(())
                for number, line in enumerate(file.lines(), start=1):
                    if line is not None and line.strip():
                        try:
                            yield self._of_json(line)
                        except (msgspec.DecodeError, RecursionError, ValueError) as error:
                            yield Faulty(number, BAD_ROW, str(error), self.name)
        except (*UNREADABLE, UnicodeDecodeError) as cause:
            raise SetupError(f"{self.name} cannot be read ({cause})") from cause

    def _of_json(self, text: bytes) -> Record:
        line = _line(text)
        moment = milliseconds(line.ts if line.timestamp is None else line.timestamp)
        value = line.payload if line.value is UNSET else line.value
        if value is not UNSET:
            key, event = _bytes(line.key), _bytes(value)
        else:
            members = msgspec.json.decode(text)
            own = {
                name: member for name, member in members.items() if name not in (*COORDINATES, KEY)
            }
            (key, event), _ = read_row(own, self.fields)
            key = key if line.key is UNSET else _bytes(line.key)
        return Record(line.topic, line.partition, line.offset, moment, key, event)


def _bytes(raw: Raw | UnsetType) -> bytes | None:
    """UTF-8 of a text, None for null; other values as written."""
    data = b"null" if raw is UNSET else bytes(raw)
    if data == b"null":
        return None
    return msgspec.json.decode(data, type=str).encode() if data.startswith(b'"') else data


def milliseconds(value: int | str | None) -> int:
    """Milliseconds since 1970 from such a number (also as text) or a date; NO_TIMESTAMP if empty.
    Raises ValueError.

    >>> milliseconds("1551708306000"), milliseconds("2019-03-04T14:05:06Z")
    (1551708306000, 1551708306000)
    """
    if value is None or value == "":
        return NO_TIMESTAMP
    if isinstance(value, str):
        if not value.removeprefix("-").isdecimal():
            return _of_date(value)
        if len(value) > MOST_DIGITS:
            raise ValueError(f"{shown(value.encode())} is not a timestamp")
    if not -(2**63) <= (number := int(value)) < 2**63:
        raise ValueError(f"{number} is not a timestamp")
    return number


def _of_date(text: str) -> int:
    if (date := dates.to_timestamp(text)) is None:
        raise ValueError(f"{shown(text.encode())} is not a timestamp")
    return dates.milliseconds(date)
