"""Standard output as all commands have it: UTF-8 where no terminal asks for another encoding, and a full disk is one line."""

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from worker.cli import output
from worker.errors import SurroundingsError


def prepare() -> None:
    """Replace `sys.stdout` by such a one; for the process, before anything is written."""
    old = sys.stdout
    if not isinstance(old, io.TextIOWrapper):  # None, if the process was started without one
        return
    encoding, errors = old.encoding, old.errors
    if codecs.lookup(encoding).name != "utf-8":
        encoding, errors = (encoding, "replace") if old.isatty() else ("utf-8", "strict")
    is_line_buffered, is_unbuffered = old.line_buffering, old.write_through
    sys.stdout = StandardOutput(
        old.detach(), encoding, errors, line_buffering=is_line_buffered, write_through=is_unbuffered
    )


class StandardOutput(io.TextIOWrapper):
    """Raises SurroundingsError where nothing more can be written; BrokenPipeError once nobody reads any more."""

    def write(self, text: str) -> int:
        """See `io.TextIOWrapper`."""
        if text == "":  # click asks so whether it is text that is wanted, and takes any error for a no
            return 0
        with _told():
            return super().write(text)

    def flush(self) -> None:
        """See `io.TextIOWrapper`."""
        with _told():
            super().flush()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        output.abandon()  # what is left in the buffer must not fail again at exit
        raise SurroundingsError(f"standard output cannot be written ({error.strerror})") from error
