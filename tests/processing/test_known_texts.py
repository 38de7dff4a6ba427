"""Native code takes texts whose vectors a store has, and publishes and stores what Python does."""

from itertools import count
from operator import attrgetter
from random import Random

import numpy as np
import pytest

from tests.harness.drive import config, delete, delete_entity, record, upsert
from tests.harness.memory_vectors import MemoryVectors
from tests.native.definitions import in_any_order, of_facets, random_facets
from tests.native.streams import DATES, LABELS, TEXTS
from tests.processing.test_vector_store import StoreDriver
from worker.processing.embed import Embedder
from worker.processing.known_texts import known_reviews
from worker.processing.pace import Pace
from worker.text.declared import MINILM

pytestmark = pytest.mark.native
WORDS = ["good", "fine thing", "The room was clean.", "Bad!", "日本語。", " ", "nan", "\ud800"]
counted = attrgetter("outcomes", "set_changes", "entities", "core.steps", "lone_surrogates")
LIMITS = {"max_sentence_chars": 30, "max_text_bytes": 300, "max_sentences_per_review": 6}


def event(random, offset):
    entity, review = random.choice("abc"), random.choice("rstu")
    if random.random() < 0.1:
        return delete_entity(offset, entity) if random.random() < 0.1 else delete(offset, review)
    fields = {
        "review_id": review,
        "review_version": random.choice([None, None, 2, 10**9]),
        "rating": random.choice([None, 1, 4.5, 11]),
        "language": random.choice([None, "en", "de-CH"]),
        "occurred_at": random.choice([None, *DATES]),
        "type": "review.upserted",
    }
    if random.random() < 0.6:
        text = " ".join(random.choices(WORDS[:6] if random.random() < 0.9 else WORDS, k=4))
        return record(offset, entity, {**fields, "text": text})
    sentences = [
        {"text": text, "labels": random.sample(LABELS, 2)}
        for text in random.choices(TEXTS, k=random.randint(0, 4))
    ]
    if sentences and random.random() < 0.1:
        sentences[0] = {"text": "own", "embedding": [1.0, 2.0, 3.0]}
    return record(offset, entity, {**fields, "sentences": sentences})


@pytest.mark.parametrize("seed", range(32))
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
        done, other = python.run_whole(*batch), native.run_whole(*batch)
        assert done.messages == other.messages
        assert in_any_order(done.rows[0]) == in_any_order(other.rows[0])
        assert counted(done.stats) == counted(other.stats)
        held += len(native.processor._native)
        for text in sorted(stores[0].kept):
            for store in stores if random.random() < 0.1 else ():
                del store.kept[text]
            vector = np.array([random.randint(1, 9) for _ in range(3)], np.int16)
            for store in stores if random.random() < 0.1 else ():
                store.kept[text] = vector
    assert held


def test_a_text_without_a_usable_vector_is_not_known():
    """As an earlier attempt at the micro-batch found."""
    good = np.array([1, 2, 3], np.int16)
    embedder = Embedder(None, Pace(), MemoryVectors(), {"good": good, "nan": None})
    batch = [upsert(0, "r", "good"), upsert(1, "s", "good", "nan"), upsert(2, "t", "new")]
    assert known_reviews(batch, range(3), config(), embedder).keys() == {0}


def test_languages_and_cut_sentences_are_counted():
    vectors = MemoryVectors()
    settings = config(limits={"max_sentence_chars": 30}, native="require")
    found = []
    for _ in range(2):
        driver = StoreDriver(vectors, settings)
        driver.engine.facts = MINILM
        body = {"type": "review.upserted", "review_id": "r", "language": "de", "text": "Wort " * 9}
        stats = driver.run(record(0, "e", body)).stats
        found.append((stats.read_by_model, stats.unread, stats.limits, stats.vectors_found))
    assert found[0][:3] == found[1][:3]
    assert (found[0][3], found[1][3]) == (0, 2)
    assert found[0][0]["no"] == 2
