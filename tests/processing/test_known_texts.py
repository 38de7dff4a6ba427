"""Native code takes texts whose vectors a store has, and publishes and stores what Python does."""

from itertools import count
from random import Random

import numpy as np
import pytest

from tests.harness.drive import FakeEngine, config, delete, delete_entity, record, upsert
from tests.harness.memory_vectors import MemoryVectors
from tests.native.definitions import in_any_order, of_facets, random_facets
from tests.native.streams import DATES, LABELS, TEXTS
from tests.processing.test_vector_store import StoreDriver
from worker.text.declared import MINILM

pytestmark = pytest.mark.native
WORDS = ["good", "fine thing", "The room was clean.", "Bad!", "日本語。", " ", "nan", "\ud800"]
LIMITS = {"max_sentence_chars": 30, "max_text_bytes": 300, "max_sentences_per_review": 6}


class Engine(FakeEngine):
    facts = MINILM


def event(random, offset):
    """Mostly a review of a few without vectors."""
    entity, review = random.choice("abc"), random.choice("rstu")
    if random.random() < 0.1:
        return delete_entity(offset, entity) if random.random() < 0.1 else delete(offset, review)
    fields = {
        "review_version": random.choice([None, None, 2, 10**9]),
        "rating": random.choice([None, 1, 4.5, 11]),
        "language": random.choice([None, "en", "de-CH"]),
        "occurred_at": random.choice([None, *DATES]),
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if random.random() < 0.6:
        text = " ".join(random.choices(WORDS[:6] if random.random() < 0.9 else WORDS, k=4))
        body = {"type": "review.upserted", "review_id": review, "text": text}
        return record(offset, entity, body | fields)
    sentences = [
        {"text": text, "labels": random.sample(LABELS, 2)}
        for text in random.choices(TEXTS, k=random.randint(0, 4))
    ]
    if sentences and random.random() < 0.1:
        sentences[0] = {"text": "own", "embedding": [1.0, 2.0, 3.0]}
    body = {"type": "review.upserted", "review_id": review, "sentences": sentences}
    return record(offset, entity, body | fields)


def counted(stats):
    limits = {
        name: count for name, count in stats.limits.items() if name != "COVERSUMM_CACHE_BYTES"
    }
    core = stats.core.steps
    return stats.outcomes, stats.set_changes, stats.entities, limits, core, stats.lone_surrogates


@pytest.mark.parametrize("seed", range(60))
def test_known_texts_equal_pythons(seed):
    random, settings = Random(seed), {"limits": {**LIMITS} if seed % 4 == 0 else {}}
    if seed % 3:
        settings = of_facets(random_facets(Random(f"facets {seed}")), k=2, **settings)
    stores = MemoryVectors(), MemoryVectors()
    python = StoreDriver(stores[0], config(**settings))
    native = StoreDriver(stores[1], config(native="require", **settings))
    offsets, held = count(), 0
    for _ in range(40):
        batch = [event(random, next(offsets)) for _ in range(random.choice([1, 1, 3, 9]))]
        one, other = python.run_whole(*batch), native.run_whole(*batch)
        assert one.messages == other.messages
        assert in_any_order(one.rows[0]) == in_any_order(other.rows[0])
        assert counted(one.stats) == counted(other.stats)
        held += len(native.processor._native)
        for text in sorted(stores[0].kept):
            for store in stores if random.random() < 0.1 else ():
                del store.kept[text]
            vector = np.array([random.randint(1, 9) for _ in range(3)], np.int16)
            for store in stores if random.random() < 0.1 else ():
                store.kept[text] = vector
    assert held


def test_languages_and_cut_sentences_are_counted():
    vectors = MemoryVectors()
    settings = config(limits={"max_sentence_chars": 30}, native="require")
    found = []
    for _ in range(2):
        driver = StoreDriver(vectors, settings)
        driver.engine = Engine()
        driver.restart()
        body = {"type": "review.upserted", "review_id": "r", "language": "de", "text": "Wort " * 9}
        stats = driver.run(record(0, "e", body)).stats
        found.append((stats.read_by_model, stats.unread, stats.limits, stats.vectors_found))
    assert found[0][:3] == found[1][:3]
    assert (found[0][3], found[1][3]) == (0, 2)
    assert found[0][0]["no"] == 2


@pytest.mark.parametrize(("count", "is_held"), [(16, True), (17, False)])
def test_a_review_of_more_than_one_row_of_texts_is_pythons(count, is_held):
    """Of 128 KiB, as four bytes a character, and eight a text."""
    vectors = MemoryVectors()
    texts = [f"{at:02}{'x' * 2044}" for at in range(count)]
    vectors.add({text: np.array([1, 2, 3], np.int16) for text in texts})
    limits = {"max_sentence_chars": 5000, "max_text_bytes": 10**6, "max_event_bytes": 10**6}
    driver = StoreDriver(vectors, config(limits=limits, native="require"))
    driver.run_whole(upsert(0, "r", *texts))
    assert driver.engine.asked == []
    assert len(driver.processor._native) == is_held
