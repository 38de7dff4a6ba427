"""What was read otherwise than it is written, counted by thread for metrics and warnings."""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

LEFT_OUT: Final = "left out"  # a member whose value a mapping could not read
EMPTY: Final = "empty"  # a record of whose list a rule took no member
FILLED: Final = "filled"  # a record of whose list a rule took one or more


class Notes(threading.local):
    """A thread's notes: U+FFFD read for lone surrogates in parsed `values`, `records` with some,
    and other notes by kind and name since `take`, with the first detail of each.
    """

    def __init__(self) -> None:
        self.values = self.records = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        self.details: dict[tuple[str, str], str] = {}

    def add(self, kind: str, name: str, detail: str = "") -> None:
        """Count one of this kind and name."""
        self.counts[kind, name] += 1
        self.details.setdefault((kind, name), detail)

    def take(self) -> Counter[tuple[str, str]]:
        """The counts since the last call."""
        found, self.counts, self.details = self.counts, Counter(), {}
        return found


def left_out(notes: Mapping[tuple[str, str], int]) -> Counter[str]:
    """For each member by name, how often a mapping could not read its value."""
    return Counter({name: count for (kind, name), count in notes.items() if kind == LEFT_OUT})


NOTES: Final = Notes()
