"""Files of events: JSON lines, plain or gzip, events and bare reviews mixed, as the records they are on Kafka."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

from worker.errors import SurroundingsError
from worker.events import Record, read_line

STDIN = "-"
_GZIP_MAGIC = b"\x1f\x8b"


class EventFile:
    """A file of events, or standard input.

    Iteration gives a record for each line that is not blank: base name as topic, partition 0, line number from 0 (blank
    lines counted) as offset, and no timestamp. Gzip is recognised by its first bytes, whatever the name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._raw: IO[bytes] | None = None
        self.topic = "stdin" if path == STDIN else Path(path).name

    @property
    def size(self) -> int | None:
        """Bytes of the file, None where that is not known."""
        return Path(self._path).stat().st_size if self._path != STDIN and Path(self._path).is_file() else None

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`; 0 for standard input."""
        return self._raw.tell() if self._raw is not None and self._raw.seekable() else 0

    def __iter__(self) -> Iterator[Record]:
        """Raises SurroundingsError where the file cannot be read to its end."""
        number = -1
        try:
            with self._open() as raw:
                self._raw = raw
                for number, line in enumerate(_decompressed(raw)):
                    if line.strip():
                        yield Record(self.topic, 0, number, -1, *read_line(line))
                self._raw = None
        except (EOFError, zlib.error, OSError) as cause:
            raise SurroundingsError(f"{self._path} cannot be read after line {number} ({cause})") from cause

    def _open(self) -> AbstractContextManager[IO[bytes]]:
        return nullcontext(sys.stdin.buffer) if self._path == STDIN else Path(self._path).open("rb")


def _decompressed(raw: IO[bytes]) -> Iterable[bytes]:
    assert isinstance(raw, io.BufferedReader)
    return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP_MAGIC else raw
