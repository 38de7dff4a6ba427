"""Records whose reading fails by a fault of the worker: dead letters, as long as they are few."""

from collections.abc import Iterable
from pathlib import Path
from traceback import walk_tb
from typing import Final

from worker.errors import CoversummError, Crash
from worker.events.reasons import Reason, Rejected, shown

MOST_IN_A_ROW: Final = 100
"""Internal errors in a row that end the process. A producer's odd records rarely come in such
numbers; a worker that fails for every record makes fewer dead letters, and none of a backlog, since
COVERSUMM_BATCH_SIZE is larger.
"""
_PACKAGE: Final = Path(__file__).parents[1]


def internal_error(error: Exception) -> Rejected:
    """The rejection of a record whose reading raised what no check raises, before it had an effect.

    Raises `error` if it is of the process or its machine, not of a record.
    """
    if isinstance(error, CoversummError | MemoryError | OSError | ImportError):
        raise error
    traceback = walk_tb(error.__traceback__)
    frames = [(Path(frame.f_code.co_filename), line) for frame, line in traceback]
    file, line = [frame for frame in frames if _PACKAGE in frame[0].parents][-1]
    what = f"{type(error).__name__} at {file.relative_to(_PACKAGE.parent)}:{line}"
    words = shown(str(error).encode(errors="backslashreplace"))
    return Rejected(Reason.INTERNAL_ERROR, f"{what}: {words}")


def internal_errors(in_a_row: int, outcomes: Iterable[object]) -> int:
    """The number of last records that are internal errors, after these outcomes.

    Raises Crash at MOST_IN_A_ROW.
    """
    for outcome in outcomes:
        if not isinstance(outcome, Rejected) or outcome.reason is not Reason.INTERNAL_ERROR:
            in_a_row = 0
        elif (in_a_row := in_a_row + 1) == MOST_IN_A_ROW:
            raise Crash(
                f"{in_a_row} records in a row are internal errors, the last one a "
                f"{outcome.detail.partition(': ')[0]}: the fault is the worker's, not theirs. This "
                "micro-batch is not committed: go back to the last version or mapping and report it"
            )
    return in_a_row
