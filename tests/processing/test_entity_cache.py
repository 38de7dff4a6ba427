"""What an entity in memory is said to take is what it takes: by that a cache holds as many as its
bytes allow.
"""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.bench.processor import Store, processor, records, run

ENTITIES = 10


@pytest.mark.parametrize("sentences", [10, 60, 130, 200])
def test_memory_is_said_as_it_is(tmp_path, sentences: int) -> None:
    events = list(records(ENTITIES * sentences, ENTITIES))
    other = Store(tmp_path / "other")
    run(other, processor(other, 2**30), events, 1000)  # for what is made once
    store = Store(tmp_path / "store")
    worker = processor(store, 2**30)
    gc.collect()
    tracemalloc.start()
    try:
        said = run(store, worker, events, 1000)["cache_bytes"]
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.95 < said / held < 1.6
