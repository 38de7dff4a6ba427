"""Lines held against the contract before anything is made of them."""

from collections.abc import Iterable, Iterator

from worker.events import Limits, Reason, Record, Rejected, decode
from worker.operations.files.entries import Entry, Faulty

_TOLERATED = {Reason.WRONG_DIMENSION, Reason.WRONG_MODEL, Reason.NO_EMBEDDING}


def judged(entries: Iterable[Entry | None], limits: Limits) -> Iterator[Entry]:
    """The entries, those records Faulty that no worker could use.

    What depends on the worker's model (dimension, model's name, whether it embeds) is the worker's to judge.
    """
    for entry in entries:
        if isinstance(entry, Record):
            (event,) = decode([entry], limits)
            if isinstance(event, Rejected) and event.reason not in _TOLERATED:
                yield Faulty(entry.offset + 1, event.reason, event.detail)
                continue
        if entry is not None:
            yield entry
