"""What is told about the lines of a file: the first that cannot be used, all others by number, and what was left out."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from worker.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.operations.files import Faulty, LeftOut

MOST_SHOWN = 10
"""Lines that are told one by one."""


class Findings:
    """The lines that cannot be used: told as they come, the first ten, and counted by reason."""

    def __init__(self, where: "Callable[[int], str]") -> None:
        """`where`: what a line (from 1) is called."""
        self._where = where
        self.reasons: Counter[str] = Counter()

    def add(self, fault: "Faulty") -> None:
        """Another one."""
        self.reasons[fault.reason] += 1
        if self.total <= MOST_SHOWN:
            output.note(f"{self._where(fault.line)}: {fault.reason}: {fault.detail}")
        elif self.total == MOST_SHOWN + 1:
            output.note("more lines that cannot be used are counted, not shown")

    @property
    def total(self) -> int:
        """How many there are."""
        return self.reasons.total()

    def complain(self, lines: int, unit: str) -> None:
        """One line of error about all of them, if there are any."""
        if self.total:
            output.complain(f"{self.total:,} of {lines:,} {unit} could not be used: {counted(self.reasons)}")


def counted(reasons: "Counter[str]") -> str:
    """Counts by reason, the most frequent first."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())


def warn_left_out(left_out: "Mapping[str, LeftOut]", where: "Callable[[int], str]") -> None:
    """One line for each field that was left out of some reviews; `where`: what a line (from 1) is called."""
    wanted = {
        "occurred_at": "no date with one meaning (2019-03-04 and March 4, 2019 have one, 03/04/2019 has not)",
        "rating": "not a number",
    }
    for field, found in left_out.items():
        reviews = output.many(found.count, "reviews")
        output.note(
            f"warning: {field} was left out of {reviews}: {wanted[field]}; first in {where(found.first_line)}: "
            f"{str(found.first_value)[:60]!r}"
        )
