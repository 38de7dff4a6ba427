"""Files one after the other, read as if they were one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from worker.errors import SurroundingsError
from worker.operations.files.entries import Entry, beginning_at
from worker.operations.files.opened import STDIN, Closing
from worker.operations.files.source import NO_FIELDS, LeftOut, ReviewFile


class ReviewFiles(Closing):
    """Files of events or bare reviews, each as `ReviewFile` reads it; lines count on from file to file.

    `with` looks at each: one that cannot be read is known before anything is made of those before it. Iteration, once.
    """

    def __init__(
        self,
        paths: Sequence[str],
        fields: Mapping[str, str] = NO_FIELDS,
        *,
        first_line: int = 1,
        by_name: bool | None = None,
        stdin: str = STDIN,
    ) -> None:
        """`first_line`: of the first file, where to begin; `stdin`: where a copy of standard input is.

        `by_name`: whether a line is called by its file too; without it, if there are several.
        """
        self._paths = paths
        self._fields = fields
        self._first_line = first_line
        self._by_name = len(paths) > 1 if by_name is None else by_name
        self._stdin = stdin
        self._opened = ExitStack()
        self._begins = [0]
        self._read_bytes = 0
        self._current = self._file(0)
        self.topic = self._current.topic
        """Of the first file."""
        self.unit = "lines"
        """What its lines are called."""
        self.size: int | None = None
        """Bytes of all files, None where that is not known."""
        self.left_out: dict[str, LeftOut] = {}
        """By field, what of bare reviews was left out so far."""

    def __enter__(self) -> ReviewFiles:
        """Raises SurroundingsError where a file cannot be opened, or is nothing that can be read here."""
        with ExitStack() as opened:
            opened.enter_context(self._current)
            looks = [self._look(place) for place in range(1, len(self._paths))]
            self._opened = opened.pop_all()
        units = {self._current.unit, *(unit for unit, _ in looks)}
        sizes = [self._current.size, *(size for _, size in looks)]
        self.unit = units.pop() if len(units) == 1 else "lines"
        self.size = None if None in sizes else sum(size or 0 for size in sizes)
        return self

    @property
    def lines(self) -> int:
        """Lines read so far, as `ReviewFile` counts them."""
        return self._begins[-1] + self._current.lines

    @property
    def position(self) -> int:
        """Bytes read so far, of `size`."""
        return self._read_bytes + self._current.position

    def where(self, line: int) -> str:
        """For people: a line (from 1, counted over all files)."""
        return self.place(line) if self._by_name else f"line {line}"

    def place(self, line: int) -> str:
        """The same for `--from-line`: a number, or FILE:LINE where there are several files."""
        if not self._by_name:
            return str(line)
        number = bisect_right(self._begins, line - 1) - 1
        return f"{self._paths[number]}:{line - self._begins[number]}"

    def __iter__(self) -> Iterator[Entry | None]:
        """Raises SurroundingsError where a file cannot be read to its end, or the first one ends before `first_line`."""
        self._current.left_out = self.left_out
        yield from beginning_at(self._first_line, self._current)
        for place in range(1, len(self._paths)):
            self._check_begin()
            self._go_on(place)
            yield from self._current

    def _go_on(self, place: int) -> None:
        begin = self._begins[-1] + self._current.height
        self._read_bytes += self._current.size or 0
        self._opened.close()
        self._current = self._opened.enter_context(self._file(place, begin))
        self._current.left_out = self.left_out
        self._begins.append(begin)

    def _check_begin(self) -> None:
        if len(self._begins) == 1 and self._current.lines < self._first_line - 1:
            raise SurroundingsError(
                f"--from-line {self.place(self._first_line)}: there are only {self._current.lines:,} {self._current.unit}"
            )

    def _file(self, place: int, begin: int = 0) -> ReviewFile:
        path = self._paths[place]
        if path == STDIN:
            return ReviewFile(self._stdin, self._fields, "standard input", begin)
        return ReviewFile(path, self._fields, begin=begin)

    def _look(self, place: int) -> tuple[str, int | None]:
        """Of a file whose turn comes later: what its lines are called, and its bytes, if it can be read twice."""
        if not Path(self._stdin if self._paths[place] == STDIN else self._paths[place]).is_file():
            return "lines", None
        with self._file(place) as file:
            next(iter(file), None)
            return file.unit, file.size
