"""Many keys with their last values, in order."""

import random
import tracemalloc

import pytest

from worker.published.sorting import LastValues


@pytest.mark.parametrize("memory_bytes", [1, 2_000, 2**20])
def test_the_last_value_of_each_key_in_order(memory_bytes):
    drawn = random.Random(3)
    pairs = [(b"k%d" % drawn.randrange(300), b"v%d" % n) for n in range(1000)]
    with LastValues(memory_bytes) as values:
        for key, value in pairs:
            values.put(key, value)
        assert list(values) == sorted(dict(pairs).items())


def test_memory_does_not_grow_with_keys():
    tracemalloc.start()
    try:
        with LastValues(memory_bytes=2**20) as values:
            for number in range(20_000):
                values.put(b"%d" % number, bytes(200))
            assert sum(1 for _ in values) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20
