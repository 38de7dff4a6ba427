"""The pieces of an archive's files, independent of the format; each is of one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.events import Record, dates
from worker.events.dates import to_timestamp
from worker.events.reasons import shown
from worker.sources.columns import Faulty

TOPIC, PARTITION, OFFSET = "topic", "partition", "offset"
TIMESTAMP, KEY, VALUE = "timestamp", "key", "value"
COORDINATES: Final = (TOPIC, PARTITION, OFFSET)
"""Columns that a file of an archive must have."""
MOST_SORTED_BYTES: Final = 2**28
"""Largest piece that is sorted in memory."""
NO_TIMESTAMP: Final = -1
MOST_DIGITS: Final = 20
"""Most characters of a number as text; longer ones are not parsed."""

Archived: TypeAlias = Record | Faulty
"""The content of an offset."""


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

    def runs(self) -> Iterator[range]:
        """Its offsets as ascending ranges."""
        offsets = np.unique(self.source.offsets(self))
        ends = np.flatnonzero(np.diff(offsets) > 1) + 1
        for run in np.split(offsets, ends):
            yield range(int(run[0]), int(run[-1]) + 1)


class ArchiveFile(Protocol):
    """A file of an archive. Most methods raise SetupError where it cannot be read."""

    name: str

    def is_archived(self) -> bool:
        """Whether its columns, or one of its first lines, are those of an archive."""

    def pieces(self) -> Iterator[Piece]:
        """Its pieces. Raises SetupError if it is no archive or of another topic."""

    def faults(self) -> Iterator[Faulty]:
        """Rows without coordinates, and broken rows."""

    def offsets(self, piece: Piece) -> NDArray[np.int64]:
        """The offsets of a piece, unsorted."""

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Archived]]:
        """A piece's records from offset `start` on, sorted, with their offsets."""


def check_sortable(name: str, held: int) -> None:
    """Raise SetupError if `held` bytes are too many to sort in memory."""
    if held > MOST_SORTED_BYTES:
        raise SetupError(
            f"{name} is not in order of offsets, and too large to put it in order in memory "
            f"({held / 2**20:,.0f} MiB in one piece): sort it by partition and offset, or split it"
        )


def check_coordinates(columns: Collection[str], name: str) -> None:
    """Raise SetupError unless the columns of a file are those of an archive."""
    if missing := [column for column in COORDINATES if column not in columns]:
        raise SetupError(f"{name} is not an archive of a topic: it has no {', '.join(missing)}")


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
    if (date := to_timestamp(text)) is None:
        raise ValueError(f"{shown(text.encode())} is not a timestamp")
    return dates.milliseconds(date)
