"""Vectors that a store has are not made again; what is published and stored does not
depend on it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import Driver, FakeEngine, config, upsert
from tests.harness.memory_vectors import MemoryVectors
from tests.processing.operations import operations
from tests.processing.slow import SlowDriver, texts
from worker.coversumm import quantize
from worker.events import Record
from worker.processing.pace import Pace
from worker.processing.processor import Processor


class StoreDriver(Driver):
    def __init__(self, vectors, settings=None):
        self.vectors = vectors
        super().__init__(settings)

    def restart(self):
        self.processor = Processor(
            self.config, self.rows.__getitem__, self.engine, vectors=self.vectors
        )


class SlowStoreDriver(SlowDriver):
    def __init__(self, vectors, seconds_a_character):
        self.vectors = vectors
        super().__init__(seconds_a_character)

    def restart(self):
        pace = Pace(self.limit_seconds, self.engine)
        self.processor = Processor(
            self.config, self.rows.__getitem__, self.engine, pace, self.vectors
        )


@pytest.fixture
def vectors():
    return MemoryVectors()


def test_a_text_is_embedded_once_and_kept_as_it_was_quantized(vectors):
    driver = StoreDriver(vectors)
    first = driver.run(upsert(0, "r", "good", "bad"), upsert(1, "s", "good"))
    assert driver.engine.asked == ["good", "bad"]
    assert vectors.kept.keys() == {"good", "bad"}
    assert vectors.kept["bad"].tolist() == quantize([FakeEngine.vector("bad")])[0].tolist()
    assert (first.stats.vectors_found, first.stats.vectors_missed) == (0, 2)
    again = StoreDriver(vectors, config(k=1))
    second = again.run(upsert(0, "r", "good", "bad", "okay"))
    assert again.engine.asked == ["okay"]
    assert (second.stats.vectors_found, second.stats.vectors_missed) == (2, 1)
    assert second.stats.sentences_embedded == 1
    assert second.stats.vector_store_bytes == vectors.disk_bytes


def test_what_is_in_it_is_the_truth(vectors):
    vectors.kept["good"] = np.array([1, 2, 3], np.int16)
    driver = StoreDriver(vectors)
    driver.run(upsert(0, "r", "good", ("other", [1.0, 0.0, 0.0]), embedding_model="fake"))
    assert driver.engine.asked == []
    rows = dict(driver.rows[0].scan(b""))
    assert any(np.array([1, 2, 3], "<i2").tobytes() in value for value in rows.values())


def test_vectors_that_events_bring_are_neither_looked_up_nor_kept(vectors):
    driver = StoreDriver(vectors)
    driver.run(upsert(0, "r", ("good", [1.0, 0.0, 0.0]), embedding_model="fake"))
    assert (vectors.asked, vectors.kept) == ([], {})


def test_a_text_without_a_usable_vector_is_not_kept(vectors):
    driver = StoreDriver(vectors)
    batch = driver.run(upsert(0, "r", "nan", "good"), upsert(1, "s", "bad"))
    assert batch.stats.dead_letters() == {"bad_vector": 1}
    assert vectors.kept.keys() == {"good", "bad"}
    assert driver.engine.asked == ["nan", "good", "bad"]


def test_known_vectors_do_not_cut_a_micro_batch(vectors):
    """Embedding them would take minutes, and looking them up takes none of the clock's time."""
    events = texts(300)
    slow = SlowStoreDriver(vectors, seconds_a_character=0.01)
    made, bodies = slow.all(events)
    assert len(made) > 100
    again = SlowStoreDriver(vectors, seconds_a_character=0.01)
    again.processor._pace.processed(1, 0.0)
    made_again, bodies_again = again.all(events)
    assert [taken for taken, _, _ in made_again] == [300]
    assert bodies_again == bodies
    assert again.engine.asked == []


@settings(max_examples=60, deadline=None)
@given(st.lists(operations, max_size=12), st.data())
def test_messages_and_rows_are_the_same_with_and_without(steps, data):
    """Whatever it has at first, whatever it forgets, and however the records are cut."""
    vectors = MemoryVectors()
    records = [
        Record("reviews", 0, offset, 1_700_000_000_000, entity.encode(), value)
        for offset, (entity, value) in enumerate(steps)
    ]
    plain, storing = Driver(), StoreDriver(vectors)
    messages = [], []
    while records:
        size = data.draw(st.integers(1, len(records)))
        for driver, made in zip((plain, storing), messages, strict=True):
            batch = driver.run(*records[:size])
            assert batch.taken == size
            made += batch.messages
        records = records[size:]
        for text in (
            data.draw(st.lists(st.sampled_from(sorted(vectors.kept)))) if vectors.kept else ()
        ):
            vectors.kept.pop(text, None)
    assert messages[0] == messages[1]
    assert dict(plain.rows[0].scan(b"")) == dict(storing.rows[0].scan(b""))
