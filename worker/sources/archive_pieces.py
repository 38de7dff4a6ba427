"""What the files of a topic's archive are made of, whatever their format: pieces, each of one
partition.
"""

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
"""What a file must have to be of an archive."""
MOST_SORTED_BYTES: Final = 2**28
"""Of a piece that is not in order of offsets, the most that is put in order in memory."""
NO_TIMESTAMP: Final = -1
MOST_DIGITS: Final = 20
"""Of a whole number as text, its sign included: longer ones are not parsed."""

Archived: TypeAlias = Record | Faulty
"""What is at an offset."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one partition that are read together: a row group's or a file's, offsets `first`
    to `last`.
    """

    source: ArchiveFile
    partition: int
    first: int
    last: int
    group: int = 0
    """Of the row groups of Parquet."""
    begin: int = 0
    """Rows of the file before this row group."""

    def runs(self) -> Iterator[range]:
        """Its offsets, in order, neighbours put together."""
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
        """What it holds. Raises SetupError where that is no archive, or of another topic."""

    def faults(self) -> Iterator[Faulty]:
        """The rows that have no coordinates, or are none."""

    def offsets(self, piece: Piece) -> NDArray[np.int64]:
        """Those of a piece, as they lie."""

    def records(self, piece: Piece, start: int) -> Iterator[tuple[int, Archived]]:
        """A piece's records with their offsets, those from `start` on, in order of offsets."""


def check_sortable(name: str, held: int) -> None:
    """Raise SetupError where `held` bytes that are not in order are too many to put in order
    in memory.
    """
    if held > MOST_SORTED_BYTES:
        raise SetupError(
            f"{name} is not in order of offsets, and too large to put it in order in memory "
            f"({held / 2**20:,.0f} MiB in one piece): sort it by partition and offset, or split it"
        )


def check_coordinates(columns: Collection[str], name: str) -> None:
    """Raise SetupError unless the columns of a file are those of an archive."""
    if missing := [column for column in COORDINATES if column not in columns]:
        raise SetupError(f"{name} is no archive of a topic: it has no {', '.join(missing)}")


class Topic:
    """The topic that all files of an archive are of."""

    name = ""

    def check(self, name: str, file: str) -> None:
        """Raise SetupError where `file` has records of another topic than what was seen
        before.
        """
        self.name = self.name or name
        if name != self.name:
            raise SetupError(
                f"{file} has records of the topic {name}, before it came {self.name}: name the files of one topic"
            )


def milliseconds(value: int | str | None) -> int:
    """Since 1970, of a number of them, also as text, or a date; NO_TIMESTAMP of nothing. Raises
    ValueError.

    >>> milliseconds("1551708306000"), milliseconds("2019-03-04T14:05:06Z")
    (1551708306000, 1551708306000)
    """
    if value is None or value == "":
        return NO_TIMESTAMP
    if isinstance(value, str):
        if not value.removeprefix("-").isdecimal():
            return _of_date(value)
        if len(value) > MOST_DIGITS:
            raise ValueError(f"{shown(value.encode())} is no timestamp")
    if not -(2**63) <= (number := int(value)) < 2**63:
        raise ValueError(f"{number} is no timestamp")
    return number


def _of_date(text: str) -> int:
    if (date := to_timestamp(text)) is None:
        raise ValueError(f"{shown(text.encode())} is no timestamp")
    return dates.milliseconds(date)
