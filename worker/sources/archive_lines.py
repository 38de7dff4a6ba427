"""A file of an archive in JSON lines, CSV or TSV; a record per line or row."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.events import Record
from worker.events.bare import read_row
from worker.events.reasons import shown
from worker.sources.archive_pieces import (
    COORDINATES,
    KEY,
    MOST_DIGITS,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    VALUE,
    Archived,
    Piece,
    Topic,
    check_coordinates,
    check_sortable,
    milliseconds,
)
from worker.sources.columns import BAD_ROW, Faulty, check_columns, review_of, rows
from worker.sources.formats import UNREADABLE
from worker.sources.opened import OpenedFile
from worker.sources.source import LeftOut, count_left_out

_LINES_LOOKED_AT: Final = 10
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


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


class _Found(NamedTuple):
    """A record, its line (from 1), and what was left out of a bare review."""

    record: Record
    line: int
    left_out: Mapping[str, Any]


_Entry: TypeAlias = _Found | Faulty


class ArchivedLines:
    """See `Source`."""

    def __init__(
        self, path: str, fields: Mapping[str, str], topic: Topic, left_out: dict[str, LeftOut]
    ) -> None:
        self.name = path
        self._fields = fields
        self._topic = topic
        self._left_out = left_out
        self._disordered: set[int] = set()

    def is_archived(self) -> bool:
        """See `Source`."""
        try:
            return any(
                isinstance(entry, _Found) for entry in islice(self._entries(), _LINES_LOOKED_AT)
            )
        except SetupError:
            return False

    def pieces(self) -> Iterator[Piece]:
        """See `Source`."""
        found: dict[int, tuple[int, int, int]] = {}
        is_empty = True
        for entry in self._entries():
            is_empty = False
            if isinstance(entry, Faulty):
                continue
            record = entry.record
            self._topic.check(record.topic, self.name)
            offset = record.offset
            first, last, previous = found.get(record.partition, (offset, offset, offset))
            if offset < previous:
                self._disordered.add(record.partition)
            found[record.partition] = min(first, offset), max(last, offset), offset
        if not (is_empty or found):
            check_coordinates((), self.name)
        for partition, (first, last, _) in found.items():
            yield Piece(self, partition, first, last)

    def faults(self) -> Iterator[Faulty]:
        """See `Source`."""
        return (entry for entry in self._entries() if isinstance(entry, Faulty))

    def offsets(self, piece: Piece) -> NDArray[np.int64]:
        """See `Source`."""
        found = array("q", (entry.record.offset for entry in self._of(piece, 0)))
        return np.frombuffer(found, np.int64)

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Archived]]:
        """See `Source`."""
        entries: Iterable[_Found] = self._of(piece, start)
        for entry in self._sorted(entries) if piece.partition in self._disordered else entries:
            count_left_out(self._left_out, entry.left_out, entry.line, self.name)
            yield entry.record.offset, entry.record

    def _of(self, piece: Piece, start: int) -> Iterator[_Found]:
        for entry in self._entries():
            if isinstance(entry, Faulty) or entry.record.partition != piece.partition:
                continue
            if entry.record.offset >= start:
                yield entry

    def _sorted(self, entries: Iterable[_Found]) -> list[_Found]:
        held, kept = 0, []
        for entry in entries:
            held += len(entry.record.key or b"") + len(entry.record.value or b"")
            check_sortable(self.name, held)
            kept.append(entry)
        return sorted(kept, key=lambda entry: entry.record.offset)

    def _entries(self) -> Iterator[_Entry]:
        try:
            with OpenedFile(self.name, self.name, COORDINATES) as file:
                lines = (line for line in file.lines() if line is not None)
                is_json = file.format.kind == "json"
                yield from (
                    self._json(lines) if is_json else self._table(lines, file.format.delimiter)
                )
        except (*UNREADABLE, UnicodeDecodeError) as cause:
            raise SetupError(f"{self.name} cannot be read ({cause})") from cause

    def _json(self, lines: Iterable[bytes]) -> Iterator[_Entry]:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield self._of_json(number, line)
                except (msgspec.DecodeError, RecursionError, ValueError) as error:
                    yield Faulty(number, BAD_ROW, str(error), self.name)

    def _of_json(self, number: int, text: bytes) -> _Found:
        line = _line(text)
        moment = milliseconds(line.ts if line.timestamp is None else line.timestamp)
        value = line.payload if line.value is UNSET else line.value
        if value is not UNSET:
            record = Record(
                line.topic, line.partition, line.offset, moment, _bytes(line.key), _bytes(value)
            )
            return _Found(record, number, {})
        members = msgspec.json.decode(text)
        own = {name: value for name, value in members.items() if name not in (*COORDINATES, KEY)}
        (key, event), left_out = read_row(own, self._fields)
        key = key if line.key is UNSET else _bytes(line.key)
        return _Found(
            Record(line.topic, line.partition, line.offset, moment, key, event), number, left_out
        )

    def _table(self, lines: Iterable[bytes], delimiter: str) -> Iterator[_Entry]:
        header: list[str] | None = None
        for row in rows(lines, delimiter):
            if isinstance(row, Faulty):
                yield row._replace(file=self.name)
            elif header is None:
                header = [name.strip() for name in row.cells]
                check_coordinates(header, self.name)
                if VALUE not in header:
                    check_columns(header, self._fields, self.name)
            else:
                try:
                    yield self._of_cells(row.line, dict(zip(header, row.cells, strict=True)))
                except ValueError as error:
                    yield Faulty(row.line, BAD_ROW, str(error), self.name)

    def _of_cells(self, number: int, cells: dict[str, str]) -> _Found:
        """An empty cell means no key, or no value."""
        partition, offset = _whole(cells, PARTITION), _whole(cells, OFFSET)
        moment = milliseconds(cells.get(TIMESTAMP))
        key = cells.get(KEY, "").encode() or None
        if VALUE in cells:
            value = cells[VALUE].encode() or None
            return _Found(Record(cells[TOPIC], partition, offset, moment, key, value), number, {})
        (own_key, event), left_out = review_of(cells, self._fields)
        return _Found(
            Record(cells[TOPIC], partition, offset, moment, key or own_key, event), number, left_out
        )


def _whole(cells: Mapping[str, str], name: str) -> int:
    text = cells[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) < 2**63):
        raise ValueError(f"{name} {shown(text.encode())} is not a number from 0 to {2**63 - 1}")
    return int(text)


def _bytes(raw: Raw | UnsetType) -> bytes | None:
    """UTF-8 of a text, None for null; other values as written."""
    data = b"null" if raw is UNSET else bytes(raw)
    if data == b"null":
        return None
    return msgspec.json.decode(data, type=str).encode() if data.startswith(b'"') else data
