"""A micro-batch that is processed before the one before it is committed comes to the same."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.harness.drive import Driver, config, delete, delete_sentences, record, upsert
from worker.state import MemoryRows


def events(chance, offset, count):
    """All that may happen to few entities of few reviews, of few vectors: copies and ties are
    common.
    """
    made = []
    for at in range(offset, offset + count):
        entity, review = chance.choice("abc"), f"r{chance.randrange(12)}"
        kind = chance.random()
        if kind < 0.07:
            made.append(record(at, entity, {"type": "entity.deleted"}))
        elif kind < 0.25:
            made.append(delete(at, review, entity_id=entity))
        elif kind < 0.35:
            made.append(delete_sentences(at, f"{review}#0", f"{review}#1", entity_id=entity))
        elif kind < 0.4:
            made.append(record(at, entity, b"no event"))
        else:
            sentences = [f"text {chance.randrange(30)}" for _ in range(chance.randrange(1, 5))]
            made.append(upsert(at, review, *sentences, entity_id=entity))
    return made


def process_ahead(driver, batches):
    """Each is stored and committed when the next one is processed."""
    waiting = None
    for records in batches:
        while records:
            batch = driver.processor.process(records)
            if waiting is not None:
                commit(driver, waiting)
            waiting = batch
            yield batch
            records = records[batch.taken :]
    commit(driver, waiting)


def commit(driver, batch):
    for partition, changes in batch.rows.items():
        driver.rows[partition].write(changes)
    driver.processor.committed(batch)


def rows_of(driver):
    return dict(driver.rows[0].scan(b""))


@pytest.mark.parametrize("cache_bytes", [0, 6000, 10**8])
@pytest.mark.parametrize("seed", range(4))
def test_it_comes_to_the_same(seed, cache_bytes):
    chance = random.Random(seed)
    offsets = [0]
    while offsets[-1] < 150:
        offsets.append(offsets[-1] + chance.randrange(1, 9))
    batches = [events(chance, start, end - start) for start, end in pairwise(offsets)]
    limits = {
        "sentences": chance.choice([5, 1000]),
        "transaction_records": chance.choice([20, 1000]),
    }
    settings = config(
        k=2,
        cache_bytes=cache_bytes,
        index=["flat", "sgtree"][seed % 2],
        emit=chance.choice(["every", "final"]),
        batch=limits,
    )
    whole, other = Driver(settings), Driver(settings)
    wanted = []
    for records in batches:
        while records:
            wanted.append(whole.run(*records))
            records = records[wanted[-1].taken :]
    found = list(process_ahead(other, batches))
    assert [batch.messages for batch in found] == [batch.messages for batch in wanted]
    assert [batch.rows for batch in found] == [batch.rows for batch in wanted]
    assert [batch.next_offsets for batch in found] == [batch.next_offsets for batch in wanted]
    assert rows_of(other) == rows_of(whole)
    if settings.emit == "final":
        assert _finish(other, ahead=True) == _finish(whole, ahead=False)
        assert rows_of(other) == rows_of(whole)


def _finish(driver, *, ahead):
    """What is published at the end of the partition, each of several transactions with the one
    before not committed yet.
    """
    messages, waiting = [], None
    while True:
        batch = driver.processor.finish(0, 1000)
        if waiting is not None:
            commit(driver, waiting)
        waiting = batch
        if not ahead or batch.is_end:
            commit(driver, waiting)
            waiting = None
        messages.append(batch.messages)
        if batch.is_end:
            return messages


def test_what_is_forgotten_before_its_commit_is_read_from_the_rows_again():
    driver = Driver()
    driver.run(upsert(0, "r0", "one"))
    driver.processor.process([upsert(1, "r1", "two")])
    driver.processor.process([upsert(2, "r2", "three")])
    driver.processor.forget([0])
    assert driver.processor.check_partition(0) == 1
    again = driver.run(upsert(1, "r1", "two"))
    whole = Driver()
    whole.run(upsert(0, "r0", "one"))
    assert again.rows == whole.run(upsert(1, "r1", "two")).rows


def test_rows_are_given_up_with_their_commit():
    """Else the last micro-batch of a worker without work would stay in memory."""
    stored_rows = MemoryRows()
    driver = Driver()
    driver.rows[0] = stored_rows
    driver.restart()
    driver.run(upsert(0, "r0", "one"))
    batch = driver.processor.process([upsert(1, "r1", "two")])
    partition = driver.processor._partitions[0]
    assert partition.rows.get(next(iter(batch.rows[0]))) is not None
    driver.processor.committed(batch)
    stored_rows.write(dict.fromkeys(rows_of(driver)))
    assert list(partition.rows.scan(b"")) == []
