"""Every error the worker ends with, and its exit code.

CoversummError
|-- SurroundingsError   2  settings, files or the broker are not as they must be: one line says what to do
|-- Crash               3  something unexpected: nothing was half done, restart the process
`-- Fenced              4  another worker has this instance id: nothing was lost, stop one of the two
"""


class CoversummError(Exception):
    """Base of all; `exit_code` is what the process ends with."""

    exit_code = 1


class SurroundingsError(CoversummError):
    """Settings, files or the broker are not as they must be. The message names which, and what to do about it."""

    exit_code = 2


class Crash(CoversummError):
    """Something went wrong that only a restart puts right; the open transaction is not committed."""

    exit_code = 3


class Fenced(CoversummError):
    """The broker gave this worker's transactional id to another process."""

    exit_code = 4
