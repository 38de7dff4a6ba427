"""Equal refusals in one line each."""

import re
from collections import Counter
from typing import Final

from worker.view import output

_VALUES: Final = re.compile(r"'[^']*'|[0-9]+")


class Groups:
    """Counts refusals that differ in their values alone, with the first of each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, place: str, reason: str) -> None:
        """Count a refusal: the place of its record, and why."""
        key = _VALUES.sub("", reason)
        self._counts[key] += 1
        self._first.setdefault(key, f"{reason} ({place})")

    def note(self) -> None:
        """Write those that occurred more than once to standard error, the most frequent first."""
        for key, count in self._counts.most_common():
            if count > 1:
                output.note(f"{count:,} times, such as {self._first[key]}")
