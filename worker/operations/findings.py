"""Lines of files that cannot be used, and values that look wrong, named for people."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from worker.events import Record
from worker.events.dates import formats_of
from worker.sources import BREAKS, HALVES, HEADER, WHERE, Entry, Faulty, ReviewFiles
from worker.view import output

MAX_NAMES = 5  # files that a message lists
MAX_FINDINGS = 10  # unusable lines that are shown one by one


def first_names(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}"


class Findings:
    """The lines of files: how many there are, and those that cannot be used. Of these the first ten
    are shown, all are counted by reason, more in groups.
    """

    def __init__(self, reviews: ReviewFiles) -> None:
        self._reviews = reviews
        self._count = 0
        self.lines = 0  # read so far, usable or not
        self._groups = output.Groups()
        self.reasons: Counter[str] = Counter()

    def usable(self, entries: Iterable[Entry | None], what: str) -> Iterator[Record]:
        """The records of the entries, with progress in `what`; counts and adds the others."""
        with output.file_progress(self._reviews.size, what) as progress:
            for entry in entries:
                if isinstance(entry, Faulty):
                    self.lines += entry.lines
                    self.add(entry)
                elif entry is not None:
                    self.lines += 1
                    yield entry
                progress.update(self._reviews.position, self.lines)

    def add(self, fault: Faulty) -> None:
        """Count a line, or several, and show it while there are few."""
        self.reasons[fault.reason] += fault.lines
        self._count += 1
        field, colon, detail = fault.detail.partition(":")
        where = self._reviews.where(fault.line)
        why = f"{fault.reason}: {self._reviews.named(field)}{colon}{detail}"
        self._groups.add(where, why)
        if self._count <= MAX_FINDINGS:
            output.note(f"{where}: {why}")
        elif self._count == MAX_FINDINGS + 1:
            output.note("more lines that cannot be used are counted, not shown")

    @property
    def total(self) -> int:
        """The number of unusable lines."""
        return self.reasons.total()

    def note_groups(self) -> None:
        """Write how often equal reasons occurred, if not all lines were shown."""
        if self._count > MAX_FINDINGS:
            self._groups.note()

    def complain(self) -> None:
        """Warn about files without a record, and write one error line about all unusable lines."""
        if empty := self._reviews.empty:
            output.note(f"warning: no reviews and no events in {first_names(empty)}")
        self.note_groups()
        if self.total:
            output.complain(
                f"{self.total:,} of {self.lines:,} {self._reviews.unit} could not be used: "
                f"{counted(self.reasons)}"
            )


def counted(reasons: Counter[str]) -> str:
    """Counts by reason, the most frequent first."""
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())


def warn_unread(left_out: Counter[str]) -> None:
    """Warn about members that a mapping left out of events."""
    for name, count in left_out.items():
        events = output.many(count, "events")
        output.note(f"warning: {name} was left out of {events}: it could not be read")


MIN_BREAKS = 2
"""Reviews from which on a backslash and an n are hardly what somebody wrote."""


def warn_left_out(reviews: ReviewFiles) -> None:
    """Warn about fields that were left out of reviews, and other values that look wrong."""
    for field, found in reviews.left_out.items():
        count = output.many(found.count, "rows" if field == HEADER else "reviews")
        place = f"first in {reviews.where(found.first_line)}"
        first = f"{place}: {str(found.first_value)[:60]!r}"
        name, have = reviews.named(field), "has" if found.count == 1 else "have"
        formats = " or ".join(f'--dates "{form}"' for form in formats_of(str(found.first_value)))
        problems = {
            "occurred_at": "the date is unknown or ambiguous "
            "(2019-03-04 and March 4, 2019 are clear, 03/04/2019 is not)"
            + (f"; if it is one, pass {formats}" if formats else ""),
            "rating": "not a number",
            "language": "not a text",
            "verified": "neither yes nor no",
            "country": "not a text",
            "author_id": "neither a text nor a number",
        }
        messages = {
            "text": f"{name} is empty in {count}, which {have} no sentence; {place}",
            WHERE: f"{count} {have} another value than --where asks for, skipped; {place}",
            HEADER: f"the header is repeated in {count}, skipped; {place}",
            HALVES: f"half of an emoji became U+FFFD in {count}; {place}",
            BREAKS: f"a text has a backslash and an n in {count}; {place}; if these are line "
            "breaks, pass --unescape",
        }
        message = messages.get(
            field, f"{name} was left out of {count}: {problems.get(field)}; {first}"
        )
        if field != BREAKS or found.count >= MIN_BREAKS:
            output.note(f"{'hint' if field == BREAKS else 'warning'}: {message}")
