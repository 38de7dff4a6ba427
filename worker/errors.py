"""The errors that end a worker, and their exit codes.

CoversummError
|-- SetupError       2  settings, files or the broker are wrong: one line says what to do
|   `-- FileErrors      a file of rules is wrong: one line for each error
|-- Crash            3  unexpected: the open transaction is not committed, restart the process
|   |-- Unanswered      brokers gave no answer: callers that can retry do so first
|   `-- InDoubt         a commit has no reliable answer: the worker determines whether it happened
|       |-- TooSlow     its records were not written in time: the next transaction is smaller
|       `-- Overtaken   the group refused it: its partitions are being given to others
`-- Fenced           4  another worker has this instance id: nothing was lost, stop one of the two
"""

from collections.abc import Sequence
from typing import Final

INTERRUPTED: Final = 130  # the exit code after Ctrl-C


class CoversummError(Exception):
    """Base of all; `exit_code` is what the process ends with."""

    exit_code = 1


class SetupError(CoversummError):
    """Settings, files or the broker are wrong. The message names which, and what to do."""

    exit_code = 2


class FileErrors(SetupError):
    """Errors in a file: `lines`, each with its position."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Crash(CoversummError):
    """A failure that only a restart repairs; the open transaction is not committed."""

    exit_code = 3


class Unanswered(Crash):
    """Brokers gave no answer in time, or a retriable error."""


class InDoubt(Crash):
    """A commit failed or was not answered: it happened or not, until its transaction is decided."""


class TooSlow(InDoubt):
    """The records of a commit were not written in time; the next transactions are smaller."""


class Overtaken(InDoubt):
    """The group no longer knows this membership: nothing is committed until the next assignment."""


class Fenced(CoversummError):
    """The broker gave this worker's transactional id to another process."""

    exit_code = 4


def many(count: int, plural: str) -> str:
    """The count with its word.

    >>> many(1, "entities"), many(2000, "lines")
    ('1 entity', '2,000 lines')
    """
    singular = (
        plural.removesuffix("ies") + "y" if plural.endswith("ies") else plural.removesuffix("s")
    )
    return f"{count:,} {singular if count == 1 else plural}"
