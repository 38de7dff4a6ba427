"""Parquet, read in bounded memory, as rows of JSON values.

Nulls are left out. Timestamps and dates become RFC 3339, decimals numbers, bytes text, and vectors
of float32 (lists or bytes) bytes, which JSON carries in base64.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, Final, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.extras import install_command

VECTORS: Final = "embedding"
"""Name of a column or member with vectors."""


def packed(arrow: Any, array: Any, name: str) -> Any:
    """The array, in it the lists of float32 (or float16) called VECTORS as little-endian float32 in
    bytes.

    Lists that have nulls in them, or are null, stay as they are, all of the array: they are rare,
    and for others to judge.
    """
    types = arrow.types
    is_list = types.is_list(array.type) or types.is_large_list(array.type)
    is_fixed = types.is_fixed_size_list(array.type)
    if types.is_struct(array.type) and not array.null_count:
        fields = list(array.type)
        parts = [
            packed(arrow, part, field.name)
            for part, field in zip(array.flatten(), fields, strict=True)
        ]
        return arrow.StructArray.from_arrays(parts, [field.name for field in fields])
    if not (is_list or is_fixed):
        return array
    within = array.flatten()
    if name == VECTORS and (types.is_float32(within.type) or types.is_float16(within.type)):
        return array if array.null_count or within.null_count else _bytes(arrow, array, within)
    if is_list and types.is_struct(within.type):
        offsets = arrow.array(_offsets(array), "int32")
        mask = array.is_null() if array.null_count else None
        return arrow.ListArray.from_arrays(offsets, packed(arrow, within, name), mask=mask)
    return array


def _bytes(arrow: Any, array: Any, numbers: Any) -> Any:
    data = numbers.to_numpy(zero_copy_only=False).astype("<f4", copy=False)
    offsets = (_offsets(array) * data.itemsize).astype(np.int32)
    buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(np.ascontiguousarray(data))]
    return arrow.Array.from_buffers(arrow.binary(), len(array), buffers)


def _offsets(array: Any) -> NDArray[np.int64]:
    """Start of each list and end of the last one, in `array.flatten()`."""
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


PIECE_BYTES: Final = 2**20
"""Approximate size of the rows held as Python objects."""
MOST_ROWS: Final = 4096
MOST_BYTES: Final = 2**24
"""Of rows that share values of a dictionary: few kilobytes of a file may stand for gigabytes."""
_BUFFER_BYTES: Final = 2**18
"""Read size of a column; without it, a row group's column is read at once."""
_FIRST_ROWS: Final = 64
"""Rows read at once to find a dictionary."""
_VALUE_BYTES: Final = 8
"""Of a value's place in a dictionary and its levels."""
_AS_BYTES: Final = frozenset({VECTORS})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Row: TypeAlias = dict[str, Any]
Turn: TypeAlias = Callable[[Any], Any]
"""Converts a value that is not null to JSON."""


class ParquetTable:
    """An open Parquet file."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """`name` is shown in messages. Raises SetupError: broken file, no pyarrow."""
        try:
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError as error:
            raise SetupError(
                f"{name} is a Parquet file; to read it: {install_command('parquet')}"
            ) from error
        self.arrow = pyarrow
        self._name = name
        with self.translating_errors():
            metadata = pyarrow.parquet.read_metadata(stream)

            chunks = _chunks(metadata)
            kept = [name for name, groups in chunks.items() if max(groups) <= MOST_BYTES // 4]
            self._too_large = chunks.keys() - kept
            self._stream = stream
            self.file = self._open(metadata, kept)
            self.columns: list[str] = self.file.schema_arrow.names
        self.row_count: int = self.file.metadata.num_rows

    def _open(self, metadata: Any, shared: list[str]) -> Any:
        """The file, whose columns of these paths are read with their dictionaries."""
        return self.arrow.parquet.ParquetFile(
            self._stream,
            metadata=metadata,
            read_dictionary=shared,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    def rows(
        self,
        columns: Collection[str],
        groups: Sequence[int] | None = None,
        as_bytes: Collection[str] = (),
    ) -> Iterator[Row | str]:
        """Each row's values that are not null, of these columns, in order; for a row with text that
        is not UTF-8 a message that names its column.

        `groups`: the row groups to read, None for all; `as_bytes`: names of columns whose bytes may
        be no text. Raises SetupError where the file
        cannot be read to its end.
        """
        for batch in self.batches(columns, groups):
            yield from self.taken_apart(batch, {*_AS_BYTES, *as_bytes})

    def taken_apart(self, batch: Any, as_bytes: Collection[str] = _AS_BYTES) -> Iterator[Row | str]:
        """The same of one batch; `as_bytes`: the names of columns and members whose bytes are no
        text.
        """
        turns = [_turn(self.arrow, field.type, field.name, as_bytes) for field in batch.schema]
        batch = self._timed(batch, self.arrow.int64())
        rows = max(1, min(batch.num_rows, PIECE_BYTES * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows):
            with self.translating_errors():
                pieces = list(_pieces(batch.slice(start, rows), turns))
            yield from pieces

    def batches(
        self, columns: Collection[str], groups: Sequence[int] | None = None
    ) -> Iterator[Any]:
        """The same as record batches; moments are microseconds since 1970 in UTC, of type
        timestamp.
        """
        wanted = [name for name in self.columns if name in columns]
        groups = range(self.file.num_row_groups) if groups is None else groups
        rows = self._batch_rows
        # The library reads no batch of several row groups with dictionaries in lists or structs.
        batches = chain.from_iterable(
            self.file.iter_batches(
                min(rows, self._sharing_rows(group, wanted)), [group], wanted, use_threads=False
            )
            for group in groups
        )
        missing = sum(map(self.rows_of, groups))
        while True:
            with self.translating_errors():
                batch = next(batches, None)
            if batch is None:
                break
            missing -= batch.num_rows
            with self.translating_errors():
                none = np.zeros(batch.num_rows, np.int64)
                sizes = (_sizes(self.arrow, column) for column in batch.columns)
                ends = np.cumsum(sum(sizes, none))
            start = 0
            while start < batch.num_rows:
                limit = MOST_BYTES + (ends[start - 1] if start else 0)
                stop = max(start + 1, int(np.searchsorted(ends, limit, "right")))
                with self.translating_errors():
                    plain = self._plain(batch.slice(start, stop - start))
                start = stop
                yield plain
        self.check_row_count(missing)

    def rows_of(self, group: int) -> int:
        """Number of rows of a row group."""
        return int(self.file.metadata.row_group(group).num_rows)

    def check_row_count(self, missing: int) -> None:
        """Raise SetupError if rows are missing or too many."""
        if missing:
            raise SetupError(
                f"{self._name} cannot be read (its columns have not as many rows as it says)"
            )

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn errors of the library into a SetupError."""
        try:
            yield
        except (self.arrow.ArrowException, OSError, ValueError, OverflowError) as cause:
            first = str(cause).split("\n")[0]
            raise SetupError(f"{self._name} cannot be read ({first})") from cause

    @property
    def _batch_rows(self) -> int:
        """Rows of a batch by the unpacked size of a row and its number of values: a list in a few
        bytes may have millions.
        """
        metadata = self.file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        values = sum(
            group.column(place).num_values for group in groups for place in range(group.num_columns)
        )
        size: int = max(sum(group.total_byte_size for group in groups), values * _VALUE_BYTES)
        size //= max(self.row_count, 1)
        return max(1, min(MOST_ROWS, PIECE_BYTES // max(size, 1)))

    def _sharing_rows(self, group: int, columns: Collection[str]) -> int:
        """The rows of a group to read at once, by the longest values in the dictionaries of chunks
        that are too large to be read with them, but for their start.
        """
        metadata = self.file.metadata
        most, starts = 0, tuple(f"{name}." for name in columns)
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            path = chunk.path_in_schema
            if path in self._too_large and f"{path}.".startswith(starts):
                longest = _longest_shared(self._open(metadata, [path]), group, path)
                repeats = math.ceil(chunk.num_values / max(self.rows_of(group), 1))
                most = max(most, longest * repeats)
        return max(1, min(MOST_ROWS, MOST_BYTES // max(most, 1)))

    def _plain(self, batch: Any) -> Any:
        """Without dictionaries, with all times in one unit and vectors as bytes."""
        for place, field in enumerate(batch.schema):
            given = batch.column(place)
            column = packed(self.arrow, given, field.name)
            if column is not given:
                batch = batch.set_column(place, field.name, column)
        return self._timed(batch, self.arrow.timestamp("us", "UTC"))

    def _timed(self, batch: Any, moment: Any) -> Any:
        """The schema with this type in place of timestamps and dates, and no dictionaries."""
        for place, field in enumerate(batch.schema):
            if (wanted := _timed(self.arrow, field.type, moment)) != field.type:
                # Without the copy, the cast decodes a list's values outside this slice as well.
                column = self.arrow.concat_arrays([batch.column(place)]).cast(wanted, safe=False)
                batch = batch.set_column(place, field.name, column)
        return batch


def _chunks(metadata: Any) -> dict[str, list[int]]:
    """The columns of texts and bytes, also within lists and structs, whose rows share values of a
    dictionary: the bytes of its chunks, unpacked.
    """
    chunks: dict[str, list[int]] = {}
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
                chunks.setdefault(chunk.path_in_schema, []).append(chunk.total_uncompressed_size)
    return chunks


def _longest_shared(file: Any, group: int, path: str) -> int:
    """Bytes of the longest value in the dictionary of a chunk; its first value begins it."""
    for batch in file.iter_batches(_FIRST_ROWS, [group], [path], use_threads=False):
        if longest := _longest(batch.column(0)):
            return longest
    return 0


def _longest(array: Any) -> int:
    """Bytes of the longest value of an array's dictionaries."""
    types = array.type
    if hasattr(array, "dictionary"):
        return max((len(value.as_buffer()) for value in array.dictionary), default=0)
    parts = array.flatten() if types.num_fields else []
    return max(map(_longest, parts if isinstance(parts, list) else [parts]), default=0)


def _sizes(arrow: Any, array: Any) -> NDArray[np.int64]:
    """Bytes of the values that each row has from dictionaries, also within lists and structs."""
    types, type_ = arrow.types, array.type
    if types.is_dictionary(type_) and type_.value_type in (arrow.string(), arrow.binary()):
        lengths = arrow.compute.binary_length(array.dictionary.cast("binary")).fill_null(0)
        taken = lengths.take(array.indices).fill_null(0)
        return np.asarray(taken, np.int64)
    if types.is_map(type_):
        pairs = arrow.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        array = arrow.ListArray.from_arrays(array.offsets, pairs)
    if types.is_struct(type_):
        return sum((_sizes(arrow, part) for part in array.flatten()), np.zeros(len(array), "int64"))
    if types.is_nested(type_):
        ends = np.concatenate([[0], np.cumsum(_sizes(arrow, array.flatten()))])
        sizes: NDArray[np.int64] = np.diff(ends[_offsets(array)])
        return sizes
    return np.zeros(len(array), np.int64)


def _pieces(batch: Any, turns: list[Turn | None]) -> Iterator[Row | str]:
    """The rows of a small batch; one by one where some of them fail."""
    try:
        yield from _rows(batch, turns)
    except UnicodeDecodeError:
        if batch.num_rows > 1:
            for place in range(batch.num_rows):
                yield from _pieces(batch.slice(place, 1), turns)
            return
        for place, turn in enumerate(turns):
            try:
                _rows(batch.select([place]), [turn])
            except UnicodeDecodeError:
                yield f"{batch.schema.names[place]}: a text is not UTF-8"
                return


def _rows(batch: Any, turns: list[Turn | None]) -> list[Row]:
    columns = []
    for column, turn in zip(batch.columns, turns, strict=True):
        values = column.to_pylist()
        columns.append(
            values if turn is None else [None if value is None else turn(value) for value in values]
        )
    names = batch.schema.names
    return [
        {name: value for name, value in zip(names, values, strict=True) if value is not None}
        for values in zip(*columns, strict=True)
    ]


def _timed(arrow: Any, type_: Any, moment: Any) -> Any:
    """The type without dictionaries, and `moment` for timestamps and dates, at every depth."""
    types = arrow.types
    if types.is_dictionary(type_):
        return _timed(arrow, type_.value_type, moment)
    if types.is_timestamp(type_) or types.is_date(type_):
        return moment
    if types.is_struct(type_):
        return arrow.struct(
            [member.with_type(_timed(arrow, member.type, moment)) for member in type_]
        )
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        within = type_.value_field.with_type(_timed(arrow, type_.value_type, moment))
        if types.is_fixed_size_list(type_):
            return arrow.list_(within, type_.list_size)
        return (arrow.list_ if types.is_list(type_) else arrow.large_list)(within)
    return type_


def _turn(arrow: Any, type_: Any, name: str, as_bytes: Collection[str]) -> Turn | None:
    """The conversion of a type's values in a column or member; None if none is needed."""
    types = arrow.types
    if types.is_timestamp(type_):
        return _moment
    if types.is_decimal(type_):
        return _number
    if types.is_floating(type_):
        return _unless_nan
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        if types.is_float32(type_.value_type) or types.is_float16(type_.value_type):
            return _vector
        return (
            None
            if types.is_floating(type_.value_type)
            else _each(_turn(arrow, type_.value_type, name, as_bytes))
        )
    if types.is_struct(type_):
        return _members(
            {field.name: _turn(arrow, field.type, field.name, as_bytes) for field in type_}
        )
    if types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return None if name in as_bytes else bytes.decode
    return _uuid_as_text if isinstance(type_, arrow.BaseExtensionType) else None


def _moment(microseconds: int) -> str | int:
    """RFC 3339; a time outside the calendar stays a number, which means no date."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds
    return moment.isoformat().replace("+00:00", "Z")


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _unless_nan(value: float) -> float | None:
    """Tables write NaN for a missing value."""
    return None if math.isnan(value) else value


def _vector(numbers: list[float]) -> bytes | list[float]:
    """Little-endian float32; a list with a null stays a list, which `decode` judges."""
    try:
        values = array("f", numbers)
    except TypeError:
        return numbers
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _each(turn: Turn | None) -> Turn | None:
    if turn is None:
        return None
    return lambda values: [None if value is None else turn(value) for value in values]


def _members(turns: dict[str, Turn | None]) -> Turn:
    def turned(members: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value if value is None or (turn := turns[name]) is None else turn(value)
            for name, value in members.items()
        }

    return turned


def _uuid_as_text(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value
