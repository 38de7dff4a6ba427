"""What a replay publishes at its end, or not at all: and that a worker which goes on from it goes
on right.
"""

import json
from bisect import bisect_left
from dataclasses import replace
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, config, record, upsert
from tests.processing.operations import operations, records_of
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import facet_criteria
from worker.processing.processor import FINISHED_AT_ONCE
from worker.state import verify_partition
from worker.state.keys import LAST_CHANGE
from worker.state.partition import read_applied

PARTITIONS = (0, 1)


def commit(driver, batch):
    for partition, changes in batch.rows.items():
        driver.rows[partition].write(changes)
    driver.processor.committed(batch)


def finish(driver, partition, end, lost=lambda: False):
    """All messages of a partition's end, by transaction; where one is lost, another process does it
    again.
    """
    found = []
    while True:
        batch = driver.processor.finish(partition, end)
        assert batch.taken == 0
        if lost():
            driver.restart()
            continue
        commit(driver, batch)
        found.append(batch.messages)
        if batch.is_end:
            assert batch.next_offsets == {partition: end}
            return found


def bodies(messages):
    return [json.loads(message.value) for message in messages]


def from_nothing(message):
    """A change as it is published at the end."""
    body = json.loads(message.value)
    added = [sentence["sentence_id"] for sentence in body["sentences"]]
    return message, body | {"previous_sequence": None, "added": added, "removed": []}


def last_ones(messages):
    """Of all that a worker publishes: each entity's last change, if its set is not empty."""
    last = {message.key: message for message in messages if message.topic == "summaries"}
    alive = [message for message in last.values() if message.value is not None]
    return [from_nothing(message) for message in alive if json.loads(message.value)["sentences"]]


def cuts(records, sizes):
    records = iter(records)
    while batch := list(islice(records, next(sizes))):
        yield batch


def endless(draw, *choices):
    while True:
        yield draw(st.sampled_from(choices))


def ends_of(records):
    return {p: sum(record.partition == p for record in records) for p in PARTITIONS}


setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "distinct": st.booleans(),
        "by_text": st.booleans(),
        "cache_bytes": st.sampled_from([0, 6000, 10**8]),
    }
)
histories = st.lists(operations, min_size=1, max_size=40).map(
    lambda events: list(records_of(events))
)


@settings(max_examples=300, deadline=None)
@given(setups, histories, st.data())
def test_the_finals_are_the_last_of_every_change(setup, records, data):
    """Over any cut into micro-batches, restarts, lost transactions and entities that go and come
    back.
    """
    every, final = Driver(config(**setup)), Driver(config(emit="final", **setup))
    final.config = replace(
        final.config,
        batch=replace(
            final.config.batch, transaction_records=data.draw(st.sampled_from([2, 50_000]))
        ),
    )
    final.restart()
    all_messages = [message for record in records for message in every.run(record).messages]
    for batch in cuts(records, endless(data.draw, 1, 2, 5, 20)):
        while batch:
            result = final.run(*batch)
            assert [message for message in result.messages if message.topic == "summaries"] == []
            batch = batch[result.taken :]
        if data.draw(st.booleans()):
            final.restart()
    ends = ends_of(records)
    lost = iter(data.draw(st.lists(st.booleans(), max_size=6)))
    found = [
        message
        for partition in PARTITIONS
        for messages in finish(final, partition, ends[partition], lambda: next(lost, False))
        for message in messages
    ]
    wanted = sorted(last_ones(all_messages), key=lambda item: item[0].key)
    found.sort(key=lambda message: message.key)
    assert bodies(found) == [body for _, body in wanted]
    assert [m._replace(value=b"") for m in found] == [m._replace(value=b"") for m, _ in wanted]
    for partition, rows in final.rows.items():
        assert list(rows.scan(LAST_CHANGE)) == []
        checks = verify_partition(
            rows, dimension=3, k=setup["k"], distinct=setup["distinct"], by_text=setup["by_text"]
        )
        assert not any(check.problems for check in checks)
        assert read_applied(rows).next_offset == ends[partition]


@settings(max_examples=150, deadline=None)
@given(
    setups,
    histories,
    st.integers(0, 40),
    st.sampled_from(["every", "coalesced", "final", "none"]),
    st.data(),
)
def test_a_worker_that_goes_on_publishes_what_it_would_have_published(
    setup, records, cut, emit, data
):
    """After a replay of any kind: as if it had been there from the beginning."""
    before, after = records[:cut], records[cut:]
    whole, parted = Driver(config(**setup)), Driver(config(emit=emit, **setup))
    for taken in before:
        whole.run(taken)
    for batch in cuts(before, endless(data.draw, 1, 2, 5, 20)):
        parted.run(*batch)
    for partition, end in ends_of(before).items():
        finish(parted, partition, end)
    parted.config = config(**setup)
    parted.restart()
    for taken in after:
        wanted, found = whole.run(taken), parted.run(taken)
        if emit != "coalesced":  # there the last published sequence is that of a net change
            assert found.messages == wanted.messages
        assert found.stats.outcomes == wanted.stats.outcomes


@settings(max_examples=150, deadline=None)
@given(histories, st.data())
def test_an_account_does_not_depend_on_what_is_published_or_on_the_cut(records, data):
    """How often sets changed is how many changes a worker would have published; and what became of
    each record is the same.
    """
    every = Driver(config())
    results = [every.run(record) for record in records]
    published = [
        m
        for result in results
        for m in result.messages
        if m.topic == "summaries" and m.value is not None
    ]
    outcomes = [outcome for result in results for outcome in result.stats.outcomes.elements()]
    alive = sum(result.stats.entities for result in results)
    for emit in ("every", "coalesced", "final", "none"):
        other = Driver(config(emit=emit))
        stats = [other.run(*batch).stats for batch in cuts(records, endless(data.draw, 1, 3, 20))]
        assert sum(part.set_changes for part in stats) == len(published)
        assert sorted(outcome for part in stats for outcome in part.outcomes.elements()) == sorted(
            outcomes
        )
        assert sum(part.entities for part in stats) == alive
        assert alive == sum(
            1
            for rows in other.rows.values()
            for _ in verify_partition(rows, dimension=3, k=3, distinct=False)
        )


def driver_with(entities, **batch):
    """A replay that has read one review of each of so many entities."""
    driver = Driver(config(emit="final", batch=batch))
    for offset in range(entities):
        driver.run(upsert(offset, "r", "good", entity_id=f"entity {offset:03}"))
    return driver


def test_a_transaction_takes_as_many_as_go_into_one():
    driver = driver_with(5, transaction_records=4)
    assert [len(messages) for messages in finish(driver, 0, 5)] == [2, 2, 1]
    ((message,),) = finish(driver_with(1), 0, 1)
    size = len(message.value)
    driver = driver_with(5, transaction_bytes=3 * size)
    assert [len(messages) for messages in finish(driver, 0, 5)] == [3, 2]
    driver = driver_with(2, transaction_bytes=1)  # one alone always goes
    assert [len(messages) for messages in finish(driver, 0, 2)] == [1, 1]
    driver = driver_with(3, transaction_records=1)
    assert [len(messages) for messages in finish(driver, 0, 3)] == [1, 1, 1]


def test_a_transaction_has_room_for_the_facets_of_its_entities():
    criteria = facet_criteria(Definitions([Facet("new", newest=1)]), 3, None)
    limits = {"transaction_records": 8}
    driver = Driver(config(emit="final", facets=criteria, facets_topic="facets", batch=limits))
    for offset in range(5):
        driver.run(upsert(offset, "r", "good", entity_id=f"entity {offset}"))
    assert [len(messages) for messages in finish(driver, 0, 5)] == [4, 4, 2]


def test_a_transaction_takes_few_hundreds(monkeypatch):
    assert FINISHED_AT_ONCE == 500
    monkeypatch.setattr("worker.processing.processor.FINISHED_AT_ONCE", 2)
    assert [len(messages) for messages in finish(driver_with(3), 0, 3)] == [2, 1]


def test_each_message_goes_out_with_the_removal_of_its_row():
    driver = driver_with(3, transaction_records=2)
    for number in range(3):
        batch = driver.processor.finish(0, 9)
        removed = [key for key, value in batch.rows[0].items() if value is None]
        assert [key[5:] for key in removed] == [message.key for message in batch.messages]
        assert batch.messages[0].key == f"entity {number:03}".encode()
        assert batch.next_offsets == {0: 9 if number == 2 else 3}
        assert (batch.is_end, batch.stats.changes, batch.stats.records) == (number == 2, 1, 0)
        commit(driver, batch)


class Scanned:
    """Rows that count how many a scan has passed, removed ones among them, as RocksDB passes
    tombstones.
    """

    def __init__(self, rows):
        self.rows, self.keys, self.passed = rows, sorted(key for key, _ in rows.scan(b"")), 0

    def get(self, key):
        return self.rows.get(key)

    def scan(self, prefix, start=None):
        first = bisect_left(self.keys, max(prefix, start or prefix))
        for key in self.keys[first:]:
            if not key.startswith(prefix):
                break
            self.passed += 1
            if (value := self.rows.get(key)) is not None:
                yield key, value

    def write(self, changes):
        self.rows.write(changes)


def test_what_is_published_is_not_passed_again():
    """Else the time goes with the square of the entities: minutes for a million."""
    driver = driver_with(60, transaction_records=4)
    driver.rows[0] = scanned = Scanned(driver.rows[0])
    driver.restart()
    entity_scans = scanned.passed
    assert [len(messages) for messages in finish(driver, 0, 60)] == [2] * 30
    passed = scanned.passed - entity_scans
    driver.rows[0] = whole = Scanned(driver_with(60).rows[0])
    driver.restart()
    driver.config = config(emit="final")
    driver.restart()
    assert [len(messages) for messages in finish(driver, 0, 60)] == [60]
    assert passed <= 2 * whole.passed


def test_the_next_chunk_is_worked_out_before_the_last_one_is_stored():
    driver = driver_with(6, transaction_records=4)
    first, second = (driver.processor.finish(0, 6) for _ in range(2))
    assert [message.key[-1:] for message in first.messages + second.messages] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]
    commit(driver, first)
    # The second one is in doubt: what is held is taken over again.
    driver.processor.forget([0])
    driver.processor.begin(0)
    assert [len(messages) for messages in finish(driver, 0, 6)] == [2, 2]
    assert list(driver.rows[0].scan(LAST_CHANGE)) == []


def test_a_partition_without_records_has_rows_from_its_end_on():
    """Else whoever takes it over would find an offset, and no state."""
    driver = Driver(config(emit="final"))
    for end in (0, 4):
        assert finish(driver, 1, end) == [[]]
        driver.restart()
        assert driver.processor.check_partition(1) == end


def test_none_publishes_nothing_and_keeps_nothing():
    driver = Driver(config(emit="none"))
    result = driver.run(
        upsert(0, "r", "good"), record(1, "e", b"{"), record(2, "e", {"type": "entity.deleted"})
    )
    assert [message.topic for message in result.messages] == ["dlq"]
    assert list(driver.rows[0].scan(LAST_CHANGE)) == []
    assert finish(driver, 0, 3) == [[]]
