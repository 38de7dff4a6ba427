"""Standard input kept in a temporary file, for what must be read twice."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from worker.errors import SurroundingsError
from worker.operations.files.opened import check_stdin


@contextmanager
def spooled() -> Iterator[str]:
    """The path of a copy of all of standard input. Raises SurroundingsError where it cannot be read or kept."""
    check_stdin()
    with tempfile.NamedTemporaryFile(prefix="coversumm-stdin-") as copy:
        try:
            with open(0, "rb", closefd=False) as stdin:
                shutil.copyfileobj(stdin, copy)
            copy.flush()
        except OSError as error:
            raise SurroundingsError(
                f"standard input cannot be kept in {tempfile.gettempdir()} ({error.strerror}): TMPDIR may name another directory"
            ) from error
        yield copy.name
