"""What deploy/ERASURE.md promises to be gone, is gone: no byte of it in any stored row, message or
memory.
"""

from pathlib import Path

import pytest

from tests.harness.drive import (
    Driver,
    config,
    delete,
    delete_entity,
    delete_sentences,
    record,
    upsert,
)
from worker.state.partition import GARBAGE_ROWS

ERASURE = (Path(__file__).parents[2] / "deploy" / "ERASURE.md").read_text()
MARK = "MARKER"
VECTOR = [0.25, 0.5, 1.0]


def marked(offset, review_id=MARK, entity_id="e"):
    return upsert(
        offset,
        review_id,
        (f"{MARK} text", VECTOR),
        (f"{MARK} more", VECTOR),
        "other",
        entity_id=entity_id,
        rating=4.5,
        author_id=f"{MARK} author",
    )


def traces(driver, mark=MARK):
    """The stored rows that hold the mark, in key or value."""
    return [
        (key, value)
        for rows in driver.rows.values()
        for key, value in rows.scan(b"")
        if mark.encode() in key or mark.encode() in value
    ]


@pytest.fixture(params=[10**8, 0], ids=["cached", "uncached"])
def driver(request):
    made = Driver(config(cache_bytes=request.param, k=2))
    made.run(marked(0), upsert(1, "kept", "one", "two"))
    return made


def test_a_deleted_review_leaves_its_id_and_version(driver):
    vector_row = next(
        value for key, value in driver.rows[0].scan(b"") if b"V" in key and MARK.encode() in key
    )
    batch = driver.run(delete(2, MARK))
    rows = traces(driver)
    assert len(rows) == 1  # the review's own: id, version, deleted
    ((key, value),) = rows
    assert key.endswith(MARK.encode())
    assert MARK.encode() not in value
    assert len(value) < 40
    assert vector_row not in [value for _, value in driver.rows[0].scan(b"")]
    for message in batch.messages:
        assert f"{MARK} text" not in message.value.decode()
        assert f"{MARK} author" not in message.value.decode()
    shown = repr(driver.summary(0, "e"))
    assert MARK not in shown


def test_deleted_sentences_leave_the_others(driver):
    driver.run(delete_sentences(2, f"{MARK}#0", f"{MARK}#1"))
    values = b"".join(value for _, value in traces(driver))
    assert b"MARKER text" not in values
    assert b"MARKER more" not in values
    assert b"other" in values
    assert b"MARKER author" in values  # of the review's other sentence
    assert f"{MARK} text" not in repr(driver.summary(0, "e"))


@pytest.mark.parametrize("cache_bytes", [10**8, 0])
def test_an_edit_without_an_author_leaves_none(cache_bytes):
    driver = Driver(config(cache_bytes=cache_bytes, k=9))
    driver.run(marked(0))
    assert f"{MARK} author" in repr(driver.summary(0, "e"))
    batch = driver.run(upsert(2, MARK, (f"{MARK} text", VECTOR), "third"))
    assert b"MARKER author" not in b"".join(value for _, value in traces(driver))
    assert f"{MARK} author" not in repr((driver.summary(0, "e"), batch.messages))


@pytest.mark.parametrize("null_value", [False, True])
def test_a_deleted_entity_is_unreachable_at_once_and_gone_with_the_next_event(driver, null_value):
    entity = f"{MARK}-entity"
    driver.run(marked(2, entity_id=entity))
    driver.run(record(3, entity, None) if null_value else delete_entity(3, entity))
    assert driver.summary(0, entity) is None
    assert traces(driver, entity)  # unreachable rows
    (batch,) = [driver.run(record(4, "no such entity", None))]
    assert batch.stats.outcomes == {("entity.deleted", "ignored:unknown_entity"): 1}
    assert traces(driver, entity) == []


def test_a_large_entity_goes_in_bounded_batches():
    driver = Driver()
    offset = 0
    for offset in range(GARBAGE_ROWS // 2 + 100):
        driver.run(upsert(offset, f"r{offset}", ("one", VECTOR), entity_id=MARK))  # two rows each
    driver.run(delete_entity(offset + 1, MARK))
    left = [len(traces(driver))]
    while left[-1]:
        offset += 1
        batch = driver.run(record(offset + 1, "no such entity", None))
        assert len(batch.rows[0]) <= GARBAGE_ROWS + 3
        left.append(len(traces(driver)))
    assert left[0] > GARBAGE_ROWS
    assert len(left) == 3
