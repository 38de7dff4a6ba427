"""A summary asked for at any moment is that of the last commit, whatever a micro-batch under way
has already done.
"""

from __future__ import annotations

from tests.harness.drive import Driver, config, summary_of, upsert
from tests.processing.restored import answered, stored
from worker.processing import summaries as module
from worker.processing.entities import EntityKey
from worker.processing.entity_view import SummaryView, read_view
from worker.state import MemoryRows


def many(offset, count, entity_id="e"):
    """One review of so many sentences."""
    return upsert(
        offset, f"r{offset}", *(f"{offset}-{i}" for i in range(count)), entity_id=entity_id
    )


def test_an_entity_in_memory_is_told_without_a_look_at_its_rows():
    driver = Driver()
    driver.run(many(0, 5))
    view = driver.processor.summaries.from_memory(EntityKey(0, "e"))
    assert (view.reservoir, view.refills, view.next_offset) == (
        4,
        0,
        1,
    )  # two of the five texts have one vector
    driver.restart()
    assert driver.processor.summaries.from_memory(EntityKey(0, "e")) is None
    assert driver.summary(0, "e").reservoir is None


def test_a_large_entity_out_of_memory_is_read_once(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 3)
    driver = Driver()
    driver.run(many(0, 5))
    driver.restart()
    driver.processor.begin(0)
    read = []
    monkeypatch.setattr(module, "read_view", lambda *a, **b: read.append(1) or read_view(*a, **b))
    assert driver.summary(0, "e") == driver.summary(0, "e")
    driver.run(many(7, 2, "another"))
    assert driver.summary(0, "e").next_offset == 8
    assert len(read) == 1
    driver.run(many(8, 2))
    assert driver.summary(0, "e").sentence_count == 7


def test_a_view_of_rows_that_a_commit_overtook_is_not_kept(monkeypatch):
    """Whoever looked before the commit and reads on after it has the commit before; the next one
    who asks must not get that.
    """
    monkeypatch.setattr(module, "LARGE", 3)
    driver = Driver(config(cache_bytes=0))
    driver.run(many(0, 5))
    before = MemoryRows(dict(driver.rows[0].scan(b"")))
    driver.run(many(1, 2))
    overtaken = driver.processor.summaries.from_rows(before, EntityKey(0, "e"), SummaryView)
    assert (overtaken.sentence_count, overtaken.next_offset) == (5, 1)
    assert answered(driver, "e") == stored(driver, "e")
    assert driver.processor.summaries.from_memory(EntityKey(0, "e")).sentence_count == 7  # kept now


def test_views_are_kept_of_few_entities(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(module, "KEPT", 3)
    driver = Driver()
    driver.run(*(many(i, 2, f"e{i}") for i in range(9)))
    for i in range(9):
        driver.summary(0, f"e{i}")
    assert [key.entity_id for key in driver.processor.summaries._kept] == ["e6", "e7", "e8"]


def test_nothing_is_known_of_partitions_that_are_others_now():
    driver = Driver()
    driver.run(many(0, 5))
    driver.processor.forget([0])
    assert driver.processor.summaries.from_memory(EntityKey(0, "e")) is None


def test_asking_changes_nothing_that_is_counted_or_published():
    """The core's counters are metrics, and its search for the best reservoir size goes by them."""
    quiet, asked = Driver(), Driver()
    for driver in (quiet, asked):
        driver.run(many(0, 5))
    for _ in range(20):
        summary_of(asked.processor, asked.rows[0], 0, "e")
    batches = [driver.run(many(1, 3), many(2, 1)) for driver in (quiet, asked)]
    assert batches[0].messages == batches[1].messages
    assert batches[0].stats.core == batches[1].stats.core
