"""Records in batches that each take about a given time, so that whoever waits sees something happen."""

import time
from collections.abc import Callable, Iterable, Iterator

from worker.operations.files.entries import Entry, Faulty

TARGET_SECONDS = 0.4
FIRST_BYTES = 4096
LEAST_BYTES = 10240
"""Of text, some 160 sentences: an engine that is given fewer at a time takes up to twice as long for each."""
MOST_GROWTH = 2.0
MOST_RECORDS = 2000


def timely(
    entries: Iterable[Entry | None],
    seconds: float = TARGET_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[list[Entry]]:
    """The entries in batches, none of them empty or with None in it; one takes its reader about `seconds`.

    What a batch of so many bytes took says how many the next one has: at most twice as many, and LEAST_BYTES on the slowest
    processor. A batch ends early where nothing more has come for now.
    """
    size: float = FIRST_BYTES
    batch: list[Entry] = []
    held = 0
    for entry in entries:
        if entry is not None:
            batch.append(entry)
            held += 0 if isinstance(entry, Faulty) else len(entry.value or b"")
        if batch and (entry is None or held >= size or len(batch) >= MOST_RECORDS):
            started = clock()
            yield batch
            taken = max(clock() - started, 1e-6)
            if held and (entry is not None or taken > seconds):
                size = max(LEAST_BYTES, min(size * MOST_GROWTH, held * seconds / taken))
            batch, held = [], 0
    if batch:
        yield batch
