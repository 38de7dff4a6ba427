"""Micro-batches are as large as they are likely to be done in time; what is published does not
depend on it.
"""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.drive import Driver, config, upsert
from tests.processing.slow import SlowDriver, texts
from worker.limits import Limit
from worker.processing.pace import (
    FIRST_BYTES,
    FIRST_CHARACTERS,
    LEAST_BYTES,
    MOST_BYTES,
    Pace,
    Rate,
    TransactionSize,
)

# -- what is likely --------------------------------------------------------------------------------


def test_a_rate_follows_what_was_measured_lately():
    rate = Rate(first=1)
    for _ in range(20):
        rate.measured(1000, 1.0)
    assert rate.seconds(1000) == pytest.approx(1.0)
    rate.measured(2000, 20.0)  # throttled to a tenth: one measurement is enough
    assert rate.seconds(1000) > 5
    for _ in range(20):
        rate.measured(1000, 1.0)
    assert rate.seconds(1000) < 1.5


def test_a_single_text_is_a_part_however_long():
    pace = Pace(1.0)
    pace.embedded(["x" * 80], 1.0)
    assert [len(part) for part in pace.parts(["y" * 5000, "z" * 30, "z" * 30])] == [1, 2]
    assert list(Pace().parts(["y" * 5000] * 9)) == [["y" * 5000] * 9]
    assert list(pace.parts([])) == []


# -- micro-batches ---------------------------------------------------------------------------------


def test_the_first_micro_batch_is_small_and_all_others_take_about_the_limit():
    driver = SlowDriver(seconds_a_character=0.001)  # a tenth of what is common, and less
    made, _ = driver.all(texts(500))
    taken, seconds, stats = zip(*made, strict=True)
    assert taken[0] == FIRST_CHARACTERS // 80
    assert all(1.5 < took <= 2.01 for took in seconds[1:-1])
    assert stats[0].limits[Limit.BATCH_TIME]
    assert sum(taken) == 500


def test_a_processor_that_is_throttled_under_way_is_noticed_after_one_micro_batch():
    driver = SlowDriver(seconds_a_character=0.0001)
    driver.all(texts(1000))
    driver.engine.seconds_a_character = 0.002
    made, _ = driver.all(texts(1000, start=1000))
    assert all(took <= 4 for _, took, _ in made[2:])


def test_a_record_of_very_many_sentences_is_progress_all_the_way():
    driver = SlowDriver(seconds_a_character=0.01)
    many = [f"{i:08d} is a sentence" for i in range(900)]
    started = driver.engine.now
    batch = driver.run(upsert(0, "r0", *many), upsert(1, "r1", "another"))
    assert batch.taken == 1
    gaps = [
        after - before
        for before, after in zip([started, *driver.progress], driver.progress, strict=False)
    ]
    assert driver.engine.now - started > 300
    assert max(gaps) < 25  # the first part was tried blindly
    assert sorted(gaps)[len(gaps) // 2] <= 2


def test_texts_without_a_vector_are_not_counted_again_when_the_plan_is_made_anew():
    """The engine was measured in between, and would now be thought too slow for what is embedded
    already.
    """
    driver = SlowDriver(seconds_a_character=0.01)
    batch = driver.run(upsert(0, "r0", "nan"), *texts(20, start=1))
    assert batch.taken == 21
    assert [list(part) for part in driver.engine.calls] == [driver.engine.asked]


@pytest.mark.parametrize(("seconds_a_character", "least"), [(0.0, 2), (0.01, 10), (0.5, 80)])
def test_what_is_published_does_not_depend_on_the_pace(seconds_a_character, least):
    records = []
    for i in range(120):
        entity = f"e{i % 3}"
        sentences = [f"{i % 40} sentence {j} of some length" for j in range(i % 5)]
        records.append(upsert(i, f"r{i % 30}", *sentences, entity_id=entity))
    expected = [message.value for message in Driver(config(k=2)).run(*records).messages]
    driver = SlowDriver(seconds_a_character, k=2)
    made, bodies = driver.all(records)
    assert bodies == expected
    assert len(made) >= least
    assert any(json.loads(body)["removed"] for body in bodies)


# -- transactions ----------------------------------------------------------------------------------

SECONDS = 10.0
"""Within which a transaction has to be written."""


def commit(size, records, bytes_a_second):
    """The next transaction of records of these sizes over a link: how many it has, and whether it
    was written.
    """
    taken, total = 0, 0
    while taken < len(records) and (not taken or total + records[taken] <= size.most):
        total += records[taken]
        taken += 1
    seconds = total / bytes_a_second
    if seconds > SECONDS:
        before = size.most
        smaller = size.unwritten(taken, total, seconds)
        if not smaller:  # a small one may have met an outage
            assert total <= LEAST_BYTES
            size.most = before
            smaller = size.unwritten(taken, total, seconds)
        assert smaller, "as large again"
        return taken, False
    size.written(total, seconds)
    return taken, True


@given(
    st.floats(10, 10**9),
    st.lists(st.floats(0.0001, 1), min_size=1, max_size=20),
    st.integers(1, MOST_BYTES),
)
def test_over_any_link_that_a_single_record_fits_transactions_get_through_after_few_failures(
    bytes_a_second, shares, most
):
    """A record takes this share of a transaction's time. Each failure leaves a quarter, and growth
    alone never leads to one.
    """
    records = [max(1, int(share * SECONDS * bytes_a_second)) for share in shares] * 20
    size = TransactionSize(SECONDS)
    size.most = most
    failures, done = 0, 0
    while done < len(records):
        taken, is_written = commit(size, records[done:], bytes_a_second)
        done += taken * is_written
        failures += not is_written
        assert failures <= math.log(max(4, min(most, sum(records))), 4) + 1


@pytest.mark.parametrize("is_written", [True, False])
def test_an_outage_that_a_small_transaction_meets_makes_later_ones_no_smaller_than_64_kib(
    is_written,
):
    size = TransactionSize(SECONDS)
    assert not size.unwritten(5, 3000, 30.0)
    assert size.most == LEAST_BYTES
    size.written(3000, 0.02)
    if is_written:
        size.written(3000, 9.0)
    else:
        assert not size.unwritten(5, 3000, 30.0)
    assert size.most == LEAST_BYTES
    assert size.unwritten(5, 3000, 30.0)  # the second one in a row: the link is slow
    assert size.most == 750
    size.written(700, 0.02)  # as fast as it was
    assert size.most >= LEAST_BYTES


def test_a_transaction_that_failed_early_or_has_one_record_is_not_made_smaller():
    size = TransactionSize(SECONDS)
    assert not size.unwritten(100, 500_000, 0.1)
    assert not size.unwritten(1, 500_000, 12.0)
    assert size.most == FIRST_BYTES
    assert not TransactionSize().unwritten(100, 500_000, 1e6)


def test_a_slow_commit_halves_what_follows_and_small_ones_change_nothing():
    size = TransactionSize(SECONDS)
    size.written(800_000, 6.0)
    assert size.most == 400_000
    size.written(3000, 3.0)  # the cluster is slow, whatever the size
    size.written(3000, 0.1)
    assert size.most == 400_000


def test_micro_batches_are_cut_to_what_a_transaction_may_have():
    driver = SlowDriver(seconds_a_character=0.0)
    transaction = driver.processor._pace.transaction
    transaction.most = 20_000
    made, _ = driver.all(texts(60))
    sizes = [stats.limits[Limit.BATCH_TIME] for _, _, stats in made]
    assert len(made) > 2
    assert any(sizes)
    transaction.most = 1
    batch = driver.run(*texts(3, start=100))
    assert batch.taken == 1
    assert batch.size > 0
