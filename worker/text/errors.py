"""What can be wrong with an embedding engine.

SurroundingsError
`-- EngineError   a package or file is missing, a hash differs, a model is of a kind the engine does not run
"""

from worker.errors import SurroundingsError


def first_line(error: BaseException) -> str:
    """What a library's error says in its first line, or its kind where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class EngineError(SurroundingsError):
    """The embedding engine cannot be used. The message is one line: what is wrong, and what to do about it."""
