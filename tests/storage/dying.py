"""A writer that dies."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

from rocksdict import Options, Rdict, WriteBatch

OFFSET = b"offset"
BATCHES = 100


def batches() -> Iterator[dict[bytes, bytes]]:
    """What is written, batch by batch: rows, and the number of the batch as its offset."""
    chance = random.Random(1)
    for number in range(BATCHES):
        keys = [b"row%04d" % chance.randrange(500) for _ in range(20)]
        yield {**{key: chance.randbytes(200) for key in keys}, OFFSET: b"%d" % number}


def write_and_die(folder: str) -> None:
    """Leave a database as `kill -9` does: several table files, and writes that are in the log
    alone.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(folder, options)
    for number, rows in enumerate(batches()):
        batch = WriteBatch(raw_mode=True)
        for key, value in rows.items():
            batch.put(key, value)
        database.write(batch)
        if number in (30, 60, 90):
            database.flush()
    os._exit(0)
