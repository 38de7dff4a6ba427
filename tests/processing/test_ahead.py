"""A micro-batch that is processed before the one before it is committed comes to the same, and
no query sees it too early.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.harness.drive import Driver, config, upsert
from tests.processing.restored import ENTITIES, answered, events, stored
from worker.processing import summaries as module
from worker.processing.entities import EntityKey
from worker.state import MemoryRows


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


@pytest.mark.parametrize("index", ["flat", "sgtree"])
@pytest.mark.parametrize("cache_bytes", [0, 6000, 10**8])
@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_the_same(seed, cache_bytes, index):
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
        index=index,
        emit=chance.choice(["every", "final"]),
        batch=limits,
    )
    one, other = Driver(settings), Driver(settings)
    wanted = []
    for records in batches:
        while records:
            wanted.append(one.run(*records))
            records = records[wanted[-1].taken :]
    found = list(process_ahead(other, batches))
    assert [batch.messages for batch in found] == [batch.messages for batch in wanted]
    assert [batch.rows for batch in found] == [batch.rows for batch in wanted]
    assert [batch.next_offsets for batch in found] == [batch.next_offsets for batch in wanted]
    assert rows_of(other) == rows_of(one)
    if settings.emit == "final":
        assert _finish(other, ahead=True) == _finish(one, ahead=False)
        assert rows_of(other) == rows_of(one)


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


@pytest.mark.parametrize("large", [0, 500])
@pytest.mark.parametrize("seed", range(6))
def test_whoever_asks_is_told_what_is_committed(monkeypatch, large, seed):
    """Not what waits for its commit, nor what is ranked on top of it: asked between all steps of
    both.
    """
    monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(module, "KEPT", 2)
    chance = random.Random(seed)
    driver = Driver(config(cache_bytes=chance.choice([0, 6000, 10**8])))

    def check():
        asked = [entity for entity in ENTITIES if chance.random() < 0.7]
        assert [answered(driver, entity) for entity in asked] == [
            stored(driver, entity) for entity in asked
        ]

    driver.run(*events(chance, 0, 5))
    offset, waiting = 5, None
    for _ in range(40):
        count = chance.randrange(1, 6)
        batch = driver.processor.process(events(chance, offset, count))
        offset += count
        check()
        if waiting is not None:
            commit(driver, waiting)
            check()
        waiting = batch
        if chance.random() < 0.3:
            commit(driver, waiting)
            waiting = None
            check()
        if chance.random() < 0.1:  # a doubt: what is not committed is read again, or was by others
            driver.processor.forget([0])
            offset = driver.processor.check_partition(0)
            driver.processor.begin(0)
            waiting = None
            check()


def test_whoever_asks_while_entities_are_ranked_is_told_what_is_committed():
    """Of those that were ranked already, and of those that will be."""
    driver = Driver()
    driver.run(*(upsert(at, "r0", "one", entity_id=entity) for at, entity in enumerate(ENTITIES)))
    waiting = driver.processor.process([upsert(3, "r1", "two", entity_id="a")])
    asked = []

    def ask():
        asked.append([answered(driver, entity) == stored(driver, entity) for entity in ENTITIES])

    driver.processor._pace.on_progress = ask
    driver.processor.process(
        [upsert(4 + at, "r2", "three", entity_id=e) for at, e in enumerate(ENTITIES)]
    )
    assert len(asked) >= len(ENTITIES)
    assert all(map(all, asked))
    commit(driver, waiting)
    assert answered(driver, "a") == stored(driver, "a")


def many(offset, count, entity_id="e"):
    """One review of so many sentences."""
    return upsert(
        offset, f"r{offset}", *(f"{offset}-{i}" for i in range(count)), entity_id=entity_id
    )


def test_of_a_large_entity_the_view_is_there_though_it_is_touched_again_before_its_commit(
    monkeypatch,
):
    """The rows of a hot entity would else be read for everyone who asks."""
    monkeypatch.setattr(module, "LARGE", 3)
    driver = Driver()
    driver.run(many(0, 5))
    from_memory = driver.processor.summaries.from_memory
    key = EntityKey(0, "e")
    assert from_memory(key).sentence_count == 5
    waiting = driver.processor.process([many(1, 2)])
    for offset in range(2, 6):
        batch = driver.processor.process([many(offset, 2)])
        assert from_memory(key).sentence_count == 5 + 2 * (offset - 2)
        commit(driver, waiting)
        view = from_memory(key)
        assert (view.sentence_count, view.next_offset) == (5 + 2 * (offset - 1), offset)
        assert _plain(view) == stored(driver, "e")
        waiting = batch


def _plain(view):
    return replace(view, reservoir=None, refills=None)


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
    assert answered(driver, "e") == stored(driver, "e")


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
