"""The index decides how fast a refill is, never what is published: the same bytes and rows
whichever searches.
"""

from itertools import count
from random import Random

import pytest

from tests.coversumm.index.libraries import StandIn, install
from tests.harness.drive import Driver, config, delete, delete_entity, delete_sentences, upsert
from worker.app import build_app
from worker.coversumm.index import IndexUnavailable
from worker.errors import SetupError
from worker.processing.config import INDEXES, check_index, index_class, processor_config
from worker.settings import Settings, settings_by_field

D = 6
EVENTS = 350
SMALL = 30_000
"""Bytes of a cache that holds one of the entities, or none."""


@pytest.fixture(autouse=True)
def graphgrove(monkeypatch):
    install(monkeypatch, StandIn)


def load():
    """Events on three entities whose vectors drift; copies, edits, deletions of all kinds."""
    random, offsets = Random(0), count()
    reviews = {entity: [] for entity in "abc"}
    for t in range(EVENTS):
        entity = random.choice("aaaabc")
        known, offset, kind = reviews[entity], next(offsets), random.random()
        if known and kind < 0.12:
            yield delete(offset, known.pop(random.randrange(len(known))), entity_id=entity)
        elif known and kind < 0.2:
            yield delete_sentences(offset, f"{random.choice(known)}#0", entity_id=entity)
        elif t > EVENTS / 2 and kind < 0.205:
            known.clear()
            yield delete_entity(offset, entity)
        else:
            review = random.choice(known) if known and kind < 0.35 else f"r{t}"
            known.append(review) if review not in known else None
            sentences = [(f"s{t}.{i}", vector(random, t)) for i in range(random.randint(1, 4))]
            yield upsert(
                offset, review, *sentences, entity_id=entity, rating=random.choice([None, 3])
            )


def vector(random, t):
    if random.random() < 0.2:
        return random.choice([[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]])
    return [2 * (i == t * D // EVENTS) + random.gauss(0, 0.4) for i in range(D)]


class Run:
    """A load through a processor in micro-batches of 7: what it publishes, its rows, and how it
    went.
    """

    def __init__(self, index, cache_bytes=10**8, restart_every=None):
        records = list(load())
        self.driver = Driver(
            config(k=4, limits={"dimension": D}, cache_bytes=cache_bytes, index=index)
        )
        self.published, self.largest_cache = [], 0
        for number, at in enumerate(range(0, EVENTS, 7)):
            if restart_every and number % restart_every == 0:
                self.driver.restart()
            batch = self.driver.run(*records[at : at + 7])
            self.published += [(m.topic, m.key, m.value, m.headers) for m in batch.messages]
            self.largest_cache = max(self.largest_cache, batch.stats.cache_bytes)
        self.rows = [dict(rows.scan(b"")) for rows in self.driver.rows.values()]


@pytest.fixture(scope="module")
def flat():
    return Run("flat")


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(("cache_bytes", "restart_every"), [(0, None), (SMALL, 5)])
def test_the_same_bytes_through_eviction_and_restarts(flat, index, cache_bytes, restart_every):
    run = Run(index, cache_bytes, restart_every)
    assert run.published == flat.published
    assert run.rows == flat.rows
    assert run.largest_cache <= cache_bytes < flat.largest_cache


@pytest.mark.parametrize("index", ["sgtree", "graphgrove"])
def test_a_tree_counts_in_the_cache(flat, index):
    """It holds the vectors, and they count: with the same limit fewer entities stay."""
    assert Run(index).largest_cache > flat.largest_cache + 100 * 2 * D


def test_the_processor_takes_the_index_of_the_settings(monkeypatch):
    assert settings_by_field()["index"].kind.accepts == f"one of {', '.join(INDEXES)}"
    for name in INDEXES:
        settings = Settings.from_environment(
            {"COVERSUMM_INDEX": name.upper(), "COVERSUMM_EMBEDDER": "none"}
        )
        made = processor_config(settings, 1, None)
        assert made.index == name
        driver = Driver(config(index=name))
        driver.run(upsert(0, "r", ("good", [1, 0, 0])))
        entity = driver.processor._entities.peek((0, "e"))
        assert type(entity.summary.sets[0].index) is index_class(name)
        check_index(name)


def test_an_index_without_its_library_ends_the_worker_in_one_line(monkeypatch):
    """Before anything else is looked at: there is no broker here."""
    install(monkeypatch, None)
    with pytest.raises(SetupError) as caught:
        build_app(Settings(index="graphgrove", embedder="none"))
    message = str(caught.value)
    assert message.startswith("COVERSUMM_INDEX=graphgrove: ")
    assert message.endswith("; or set COVERSUMM_INDEX=sgtree")
    assert "\n" not in message
    assert caught.value.exit_code == 2
    with pytest.raises(IndexUnavailable):
        Driver(config(index="graphgrove"))
