"""What an entity in memory is said to take is what it takes: by that a cache holds as many as its
bytes allow, and a micro-batch reads no more than it may.
"""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.bench.processor import DIMENSION, Store, processor, records, run
from tests.harness.long import one_of
from tests.processing.facet_runs import packed
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.limits import Limit
from worker.processing.processor import Processor

ENTITIES = 10
NEAR = 1.5 * np.random.default_rng(7).normal(size=(9, DIMENSION))
FACETS = facet_criteria(
    Definitions(
        [
            *(
                Facet(f"x{i}", vectors=(packed(vector),), threshold=0.0)
                for i, vector in enumerate(NEAR)
            ),
            *(Facet(f"fans{i}", rating=RatingRange(min=4), k=40) for i in range(6)),
            Facet("new", newest=100, k=40),
        ]
    ),
    DIMENSION,
    None,
)


def worker_of(store: Store, *, has_facets: bool, **batch: int) -> Processor:
    made = processor(store, 2**30).config
    facets = {"facets": FACETS, "facets_topic": "facets"} if has_facets else {}
    made = replace(made, batch=replace(made.batch, **batch), **facets)
    return Processor(made, lambda _: store.rows, None)


@pytest.mark.parametrize(
    ("sentences", "has_facets"), one_of([(10, False), (10, True), (130, False)])
)
def test_memory_is_said_as_it_is(tmp_path: Any, sentences: int, has_facets: bool) -> None:
    """Encoded facets included, which are kept for the next message: six of them quote the same."""
    events = list(records(ENTITIES * sentences, ENTITIES))
    if has_facets:
        events = [
            event._replace(value=event.value.replace(b"room", b"room" * 200)) for event in events
        ]
    other = Store(tmp_path / "other")
    run(other, worker_of(other, has_facets=has_facets), events, 1000)  # to warm up
    store = Store(tmp_path / "store")
    worker = worker_of(store, has_facets=has_facets)
    gc.collect()
    tracemalloc.start()
    try:
        said = run(store, worker, events, 1000)["cache_bytes"]
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.95 < said / held < 1.6


@pytest.mark.parametrize("has_facets", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_micro_batch_ends_before_it_reads_more_than_it_may(
    tmp_path: Any, has_facets: bool
) -> None:
    """And the next ones are as long as fits, without a cut."""
    store = Store(tmp_path / "store")
    run(store, worker_of(store, has_facets=has_facets), list(records(1000, 40)), 1000)
    events = [record._replace(offset=record.offset + 1000) for record in records(400, 40, seed=8)][
        :40
    ]
    whole = worker_of(store, has_facets=has_facets).process(events)
    each = whole.loaded // 40
    assert each > 25_000
    cut = worker_of(store, has_facets=has_facets, loaded_bytes=10 * each)
    batch = cut.process(events)
    assert 8 <= batch.taken <= 12
    assert batch.loaded <= 10 * each
    assert batch.stats.limits[Limit.CACHE_BYTES] >= 1
    messages = batch.messages
    sizes = []
    while events := events[batch.taken :]:
        store.write(batch.rows[0])
        cut.committed(batch)
        batch = cut.process(events)
        messages += batch.messages
        sizes.append(batch.taken)
        assert batch.stats.limits[Limit.CACHE_BYTES] == 0
    assert max(sizes) <= 10
    assert sorted(map(repr, messages)) == sorted(map(repr, whole.messages))
