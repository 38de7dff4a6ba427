"""One thing that was asked of a broker."""

from typing import NamedTuple


class Check(NamedTuple):
    """One thing that was asked. `passed` is None where there was no answer; `found` says what was, `remedy` what to do."""

    of: str
    what: str
    passed: bool | None
    found: str
    remedy: str = ""
