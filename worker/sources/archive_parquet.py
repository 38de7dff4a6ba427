"""A file of an archive in Parquet; a record per row."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.events import Record
from worker.events.bare import read_row
from worker.sources.archive_files import (
    COORDINATES,
    KEY,
    NO_TIMESTAMP,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TOPIC,
    VALUE,
    ArchiveFile,
    Piece,
)
from worker.sources.columns import (
    BAD_ROW,
    MEMBERS,
    Entry,
    Faulty,
    check_columns,
    columns_of,
    with_text,
)
from worker.sources.opened import OpenedFile
from worker.sources.parquet import VECTORS, ParquetTable, Row

_AS_BYTES: Final = frozenset({KEY, VALUE, VECTORS})


class _Coordinates(NamedTuple):
    """Partitions and offsets of a row group's rows, int64 (N,); -1 for none."""

    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def rows_of(self, partition: int, start: int = 0) -> NDArray[np.int64]:
        """Row numbers of the partition from offset `start` on."""
        return np.flatnonzero((self.partitions == partition) & (self.offsets >= max(start, 0)))


@dataclass
class ArchivedParquet(ArchiveFile):
    """Parquet."""

    faulty: list[tuple[int, int]] = field(default_factory=list)
    """Row groups with rows without coordinates, and the number of rows before each."""

    @cached_property
    def _members(self) -> set[str]:
        return columns_of(self.fields, MEMBERS)

    def is_archived(self) -> bool:
        with self._table() as table:
            return set(COORDINATES) <= set(table.columns)

    def pieces(self) -> Iterator[Piece]:
        with self._table() as table:
            self._check(table)
            begin = 0
            for group in range(table.file.num_row_groups):
                self._check_topic(table, group)
                yield from self._pieces_of(table, group, begin)
                begin += table.rows_of(group)

    def faults(self) -> Iterator[Faulty]:
        with self._table() as table:
            for group, begin in self.faulty:
                found = _coordinates(table, group)
                for row in np.flatnonzero((found.partitions < 0) | (found.offsets < 0)):
                    detail = f"it has no {PARTITION} and {OFFSET}"
                    yield Faulty(begin + int(row) + 1, BAD_ROW, detail, self.name)

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Entry]]:
        with self._table() as table:
            found = _coordinates(table, piece.group)
            rows = found.rows_of(piece.partition, start)
            offsets = found.offsets[rows]
            if len(rows) == 0:
                return
            batches = _chosen(table, piece.group, self._columns(table), rows)
            if np.any(np.diff(offsets) < 0):
                self.check_sortable(table.file.metadata.row_group(piece.group).total_byte_size)
                order = np.argsort(offsets, kind="stable")
                rows, offsets = rows[order], offsets[order]
                batches = table.arrow.Table.from_batches(list(batches)).take(order).to_batches()
            members = (
                row
                for batch in batches
                for row in table.taken_apart(_with_bytes(table, batch), _AS_BYTES)
            )
            for row, offset, found_row in zip(
                rows.tolist(), offsets.tolist(), members, strict=True
            ):
                line = piece.begin + row + 1
                yield offset, self._record(table, piece.partition, offset, found_row, line)

    def _record(
        self, table: ParquetTable, partition: int, offset: int, row: Row | str, line: int
    ) -> Entry:
        if isinstance(row, str):
            return Faulty(line, BAD_ROW, f"{partition}:{offset}: {row}", self.name)
        moment = row.get(TIMESTAMP, NO_TIMESTAMP)
        if VALUE in table.columns:
            return Record(self.topic.name, partition, offset, moment, row.get(KEY), row.get(VALUE))
        own = {name: value for name, value in row.items() if name in self._members}
        (key, event), _ = read_row(with_text(own, table.columns, self.fields), self.fields)
        key = row.get(KEY) if KEY in table.columns else key
        return Record(self.topic.name, partition, offset, moment, key, event)

    def _columns(self, table: ParquetTable) -> set[str]:
        return {TIMESTAMP, KEY} | ({VALUE} if VALUE in table.columns else self._members)

    @contextmanager
    def _table(self) -> Iterator[ParquetTable]:
        with OpenedFile(self.name, self.name) as file:
            yield file.table()

    def _check(self, table: ParquetTable) -> None:
        """Raise SetupError if columns are missing or have wrong types."""
        self.check_coordinates(table.columns)
        if VALUE not in table.columns:
            check_columns(table.columns, self.fields, self.name, MEMBERS)
        types, schema = table.arrow.types, table.file.schema_arrow
        for name, wanted, fits in (
            (PARTITION, "whole numbers", types.is_integer),
            (OFFSET, "whole numbers", types.is_integer),
            (
                TIMESTAMP,
                "milliseconds or timestamps",
                lambda t: types.is_integer(t) or types.is_timestamp(t),
            ),
            (KEY, "bytes or text", lambda t: _is_bytes(types, t)),
            (VALUE, "bytes or text", lambda t: _is_bytes(types, t)),
        ):
            if name in table.columns and not fits(type_ := _plain(types, schema.field(name).type)):
                raise SetupError(
                    f"{self.name}: the column {name} is of type {type_}; wanted are {wanted}"
                )

    def _check_topic(self, table: ParquetTable, group: int) -> None:
        with table.translating_errors():
            names = _column(table, group, TOPIC).drop_null().unique().to_pylist()
            texts = [name if isinstance(name, str) else bytes(name).decode() for name in names]
        for text in texts:
            self.topic.check(text, self.name)

    def _pieces_of(self, table: ParquetTable, group: int, begin: int) -> Iterator[Piece]:
        found = _coordinates(table, group)
        if np.any((found.partitions < 0) | (found.offsets < 0)):
            self.faulty.append((group, begin))
        for partition in np.unique(found.partitions[found.partitions >= 0]).tolist():
            offsets = found.offsets[found.rows_of(partition)]
            if len(offsets):
                yield Piece(self, partition, int(offsets.min()), int(offsets.max()), group, begin)


def _column(table: ParquetTable, group: int, name: str) -> Any:
    with table.translating_errors():
        column = table.file.read_row_group(group, [name], use_threads=False).column(0)
    table.check_row_count(table.rows_of(group) - len(column))
    return column


def _coordinates(table: ParquetTable, group: int) -> _Coordinates:
    with table.translating_errors():
        numbers = (
            _column(table, group, name).cast("int64").fill_null(-1).to_numpy()
            for name in (PARTITION, OFFSET)
        )
        return _Coordinates(*numbers)


def _chosen(
    table: ParquetTable, group: int, columns: Collection[str], rows: NDArray[np.int64]
) -> Iterator[Any]:
    """Batches of some rows of a row group, by ascending row numbers."""
    begin = 0
    for batch in table.batches(columns, [group]):
        low, high = np.searchsorted(rows, [begin, begin + batch.num_rows])
        if high - low == batch.num_rows:
            yield batch
        elif high > low:
            yield batch.take(table.arrow.array(rows[low:high] - begin))
        begin += batch.num_rows


def _with_bytes(table: ParquetTable, batch: Any) -> Any:
    """Key and value as bytes, the timestamp as milliseconds."""
    types = table.arrow.types
    for place, described in enumerate(batch.schema):
        column = batch.column(place)
        if described.name in (KEY, VALUE) and not _is_binary(types, described.type):
            batch = batch.set_column(place, described.name, column.cast("binary"))
        elif described.name == TIMESTAMP and types.is_timestamp(described.type):
            moments = column.cast(table.arrow.timestamp("ms", "UTC"), safe=False)
            batch = batch.set_column(place, described.name, moments.cast("int64"))
    return batch


def _plain(types: Any, type_: Any) -> Any:
    return type_.value_type if types.is_dictionary(type_) else type_


def _is_bytes(types: Any, type_: Any) -> bool:
    is_text = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    return is_text or _is_binary(types, type_)


def _is_binary(types: Any, type_: Any) -> bool:
    return bool(
        types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_fixed_size_binary(type_)
        or types.is_binary_view(type_)
    )
