"""What a worker logged, line by line: levels, and whatever is not a log line at all."""

from __future__ import annotations

import re
from typing import NamedTuple

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOUD = ("WARNING", "ERROR", "CRITICAL", "OTHER")
_LINE = re.compile(rf"^\d{{4}}-\d\d-\d\dT[\d:.]+Z ({'|'.join(LEVELS)}) ([\w.\-]+): (.*)$")


class Line(NamedTuple):
    """One line; a traceback, or what a library printed past the log, has the level OTHER."""

    level: str
    logger: str
    text: str


def parse(text: str) -> list[Line]:
    """The lines of a worker's log in its text form."""
    return [
        Line(*found.groups()) if (found := _LINE.match(line)) else Line("OTHER", "", line)
        for line in text.splitlines()
        if line.strip()
    ]


def loud(lines: list[Line]) -> list[str]:
    """Those at WARNING and above, and those that are no log lines."""
    return [f"{line.level} {line.logger}: {line.text}" for line in lines if line.level in LOUD]
