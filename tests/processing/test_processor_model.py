"""Whatever happens in whatever order, however it is cut, evicted and restarted: the processor does
what the model does.
"""

from itertools import islice
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, FakeEngine, config, sent
from tests.harness.model import Model
from tests.processing.operations import event, operations, records_of, upserted
from worker.state import verify_partition

setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "distinct": st.booleans(),
        "by_text": st.booleans(),
        "emit": st.sampled_from(["every", "coalesced"]),
        "min_changes": st.sampled_from([1, 1, 2, 3]),
        "cache_bytes": st.sampled_from([0, 6000, 10**8]),
        "index": st.sampled_from(["flat", "sgtree"]),
    }
)


@st.composite
def runs(draw):
    """Micro-batches in order, some events sent twice, some micro-batches delivered twice; True:
    restart before it.
    """
    size = draw(st.sampled_from([3, 10, 30]))  # left to itself, a list has about five elements
    events = draw(st.lists(operations, min_size=size, max_size=size))
    for _ in range(draw(st.integers(0, 5))):
        events.insert(draw(st.integers(0, len(events))), draw(st.sampled_from(events)))
    records = iter(list(records_of(events)))
    batches, seen = [], []
    while batch := list(islice(records, draw(st.sampled_from([1, 2, 5, 20])))):
        if seen and draw(st.integers(0, 4)) == 0:
            rewound = draw(st.integers(1, len(seen)))
            batch = seen[-rewound:] + batch
        seen += [r for r in batch if r not in seen]
        batches.append((draw(st.booleans()), batch))
    return batches


@settings(max_examples=150, deadline=None)
@given(setup=setups, batches=runs())
def test_processor_equals_model(setup, batches):
    driver = Driver(config(**setup))
    model = Model(driver.config, FakeEngine.vector)
    for restart, batch in batches:
        if restart:
            driver.restart()
        expected, outcomes = model.run(batch)
        result = driver.run(*batch)
        assert [sent(message) for message in result.messages] == expected
        assert sorted(outcome for _, outcome in result.stats.outcomes.elements()) == sorted(
            outcomes
        )
        assert result.stats.records == len(batch)
    for partition, rows in driver.rows.items():
        checks = list(
            verify_partition(
                rows,
                dimension=3,
                k=setup["k"],
                distinct=setup["distinct"],
                by_text=setup["by_text"],
                min_changes=setup["min_changes"],
            )
        )
        assert [check.problems for check in checks if check.problems] == []
        assert {check.entity_id for check in checks} == {
            e for p, e in model.entities if p == partition
        }
    _check_views(driver, model)
    driver.restart()
    _check_views(driver, model)


def _check_views(driver, model):
    for (partition, entity_id), entity in model.entities.items():
        view = driver.summary(partition, entity_id)
        _, sentences, reviews, count, rated = model.summary(entity)
        assert msgspec.to_builtins(view.sentences) == tuple(sentences)
        assert msgspec.to_builtins(view.ratings) == rated
        assert (view.review_count, view.sentence_count, view.sequence) == (
            reviews,
            count,
            entity.sequence,
        )
    assert driver.summary(0, "nobody") is None


@pytest.mark.parametrize(("seed", "cache_bytes"), [(0, 0), (1, 20_000), (2, 10**8)])
def test_long_lives_with_refills(seed, cache_bytes):
    """So many different vectors that the reservoir never holds all, in micro-batches of any size,
    with evictions and restarts.
    """
    random = Random(seed)
    driver = Driver(config(k=3, cache_bytes=cache_bytes))
    model = Model(driver.config, FakeEngine.vector)
    events = []
    for i in range(400):
        vector = [random.gauss(i / 20, 1), random.gauss(1, 1), random.gauss(-i / 40, 1)]
        review_id = f"r{random.randrange(i + 1)}" if i % 9 == 8 else f"r{i}"
        events.append(upserted("a", review_id, [(f"text {i}", vector)], {}))
        if i >= 120:  # a sliding window: the centroid goes far
            events.append(event("a", {"type": "review.deleted", "review_id": f"r{i - 120}"}))
    records = list(records_of(events))
    refills = 0
    while records:
        batch, records = records[: (size := random.choice([1, 2, 30]))], records[size:]
        if random.random() < 0.01:
            driver.restart()
        result = driver.run(*batch)
        assert [sent(message) for message in result.messages] == model.run(batch)[0]
        refills += result.stats.core.refilled
    _check_views(driver, model)
    assert refills > 0 or cache_bytes < 10**8  # who is evicted loads anew, and has no need of one
