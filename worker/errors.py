"""Every error the worker ends with, and its exit code.

CoversummError
|-- SetupError   2  settings, files or the broker are not as they must be: one line says what to do
|-- Crash               3  something unexpected: nothing was half done, restart the process
|   |-- Unanswered         brokers gave no answer, or none yet: whoever can ask again does so first
|   `-- InDoubt            a commit has no answer that could be relied on: it is found out whether it happened
|       |-- TooSlow        its records were not written in time: the next transaction is smaller
|       `-- Overtaken      the group refused it: its partitions are being given to others
`-- Fenced              4  another worker has this instance id: nothing was lost, stop one of the
two
"""


class CoversummError(Exception):
    """Base of all; `exit_code` is what the process ends with."""

    exit_code = 1


class SetupError(CoversummError):
    """Settings, files or the broker are not as they must be. The message names which, and what to
    do about it.
    """

    exit_code = 2


class Crash(CoversummError):
    """Something went wrong that only a restart puts right; the open transaction is not
    committed.
    """

    exit_code = 3


class Unanswered(Crash):
    """Brokers gave no answer in time, or said that they cannot yet; asking again does no harm."""


class InDoubt(Crash):
    """A commit failed, or no answer came: whether it happened is known only when its transaction is
    decided.
    """


class TooSlow(InDoubt):
    """The records of a commit were not written in time; what comes next is committed in smaller
    transactions.
    """


class Overtaken(InDoubt):
    """The group does not know this membership any more: nothing was committed, and nothing will be
    before the next assignment.
    """


class Fenced(CoversummError):
    """The broker gave this worker's transactional id to another process."""

    exit_code = 4
