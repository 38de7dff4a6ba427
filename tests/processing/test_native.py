"""Native code publishes and stores what Python does, byte for byte.

Two processors get the same micro-batches, one of them with the pool. The streams have all types of
events, odd texts and numbers, and records that are no events; entities lie in two partitions.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frozen.events import DIMENSION
from tests.harness.drive import config
from tests.native.definitions import in_any_order, of_facets, random_facets
from tests.native.streams import records as random_records
from worker.errors import SetupError
from worker.events import Record
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import FacetCriteria
from worker.processing import native
from worker.processing.config import ProcessorConfig
from worker.processing.entities import EntityKey
from worker.processing.processor import ProcessedBatch, Processor
from worker.state import MemoryRows

pytestmark = pytest.mark.native
PARTITIONS = (0, 1)
COPIES = ({}, {"distinct": True}, {"distinct": True, "by_text": True})
SETTINGS = st.builds(
    lambda emit, copies: {"emit": emit, **copies},
    st.sampled_from(["every", "coalesced", "none"]),
    st.sampled_from(COPIES),
)
"""Some that native code knows."""


class Work:
    """A processor with its rows. Micro-batches wait for their commit while `lag` newer ones are
    processed.
    """

    def __init__(self, made: ProcessorConfig, lag: int) -> None:
        self.config, self.lag = made, lag
        self.rows = {partition: MemoryRows() for partition in PARTITIONS}
        self.waiting: list[ProcessedBatch] = []
        self.restart()

    def restart(self) -> None:
        """What is not committed is lost."""
        self.waiting.clear()
        self.processor = Processor(self.config, self.rows.__getitem__, None)
        for partition in PARTITIONS:
            self.processor.begin(partition)

    def process(self, records: list[Record]) -> ProcessedBatch:
        batch = self.processor.process(records)
        self.waiting.append(batch)
        while len(self.waiting) > self.lag:
            self.commit()
        return batch

    def commit(self) -> None:
        batch = self.waiting.pop(0)
        for partition, changes in batch.rows.items():
            self.rows[partition].write(changes)
        self.processor.committed(batch)

    def commit_all(self) -> None:
        while self.waiting:
            self.commit()

    def rebalance(self, partition: int) -> None:
        """The partition goes and comes back."""
        self.commit_all()
        self.processor.forget([partition])
        self.processor.begin(partition)


def both(lag: int, **changes: Any) -> tuple[Work, Work]:
    limits = {"dimension": DIMENSION, "model": "fake", "embeds": False, "max_event_bytes": 8192}
    limits |= {"max_sentence_chars": 100, "max_sentences_per_review": 40}
    made = config(limits=limits | changes.pop("limits", {}), **changes)
    return Work(made, lag), Work(replace(made, native="require"), lag)


def drawn(seed: int, count: int, oddness: float) -> list[Record]:
    """The records of a seed."""
    return list(random_records(Random(seed), count, oddness, dimension=DIMENSION, has_labels=True))


def stored(work: Work) -> list[dict[bytes, bytes]]:
    return [dict(rows.scan(b"")) for rows in work.rows.values()]


def counted(batch: ProcessedBatch) -> tuple[Any, ...]:
    stats = batch.stats
    return (
        stats.outcomes,
        stats.first_letters,
        stats.set_changes,
        stats.entities,
        stats.changes,
        stats.facets_changes,
        stats.tombstones,
        stats.lone_surrogates,
        stats.future_dates,
        stats.core.steps,
    )


def comparable(batch: ProcessedBatch) -> dict[int, Any]:
    """Its rows."""
    return {number: in_any_order(rows) for number, rows in batch.rows.items()}


def check_same(seed: int, count: int, **changes: Any) -> tuple[Work, Work]:
    """The processors agree after each micro-batch of the seed's stream."""
    random = Random(-seed - 1)
    stream = drawn(seed, count, random.choice([0.0, 0.02, 0.02, 0.2]))
    works = python, pool = both(random.choice([0, 1, 1]), **changes)
    most = random.choice([1, 3, 20, 150])
    at, starts = 0, [0]  # of the micro-batches; those that wait are the last ones
    while at < len(stream):
        end = at + random.randint(1, most)
        first = max(0, at - random.choice([0, 0, 0, 2]))  # some records come again
        done, other = (work.process(stream[first:end]) for work in works)
        assert done.messages == other.messages
        assert comparable(done) == comparable(other)
        assert done.next_offsets == other.next_offsets
        assert counted(done) == counted(other)
        assert done.size == other.size
        at = end
        starts.append(at)
        chance = random.random()
        if chance < 0.1:
            at = starts[-1 - len(python.waiting)]
            for work in works:
                work.restart()
        elif chance < 0.2:
            partition = random.choice(PARTITIONS)
            for work in works:
                work.rebalance(partition)
    for work in works:
        work.commit_all()
    assert list(map(in_any_order, stored(python))) == list(map(in_any_order, stored(pool)))
    return works


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10**9),
    k=st.integers(1, 6),
    cache_bytes=st.sampled_from([0, 20_000, 10**8]),
    most=st.sampled_from([6, 5000]),
    changes=SETTINGS,
)
def test_the_same_is_published_and_stored(
    seed: int, k: int, cache_bytes: int, most: int, changes: dict[str, Any]
) -> None:
    limits = {"max_sentences_per_entity": most}
    check_same(seed, 100, k=k, cache_bytes=cache_bytes, limits=limits, **changes)


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10**9),
    cache_bytes=st.sampled_from([0, 50_000, 10**8]),
    most=st.sampled_from([6, 5000]),
    emit_mentions=st.sampled_from([0, 0, 1, 20]),
)
def test_facets_are_the_same(seed: int, cache_bytes: int, most: int, emit_mentions: int) -> None:
    limits = {"max_sentences_per_entity": most}
    facets = random_facets(Random(seed), DIMENSION)
    made = of_facets(facets, limits=limits, emit_mentions=emit_mentions, cache_bytes=cache_bytes)
    check_same(seed, 100, k=1 + seed % 5, **made)


CUTS = {"records": st.integers(4, 60), "sentences": st.integers(5, 60)}


@settings(max_examples=30)
@given(seed=st.integers(0, 10**9), changes=SETTINGS, is_first=st.booleans(), **CUTS)
def test_the_same_cuts_give_the_same(
    seed: int, changes: dict[str, Any], is_first: bool, records: int, sentences: int
) -> None:
    """What is coalesced depends on the cuts: one processor is cut, the other gets its part."""
    left = drawn(seed, 200, 0.02)
    batch = {"transaction_records": records, "sentences": sentences, "transaction_bytes": 20_000}
    leads = both(1, batch=batch, cache_bytes=50_000, **changes)[not is_first]
    follows = both(1, cache_bytes=50_000, **changes)[is_first]
    while left:
        done = leads.process(left[:80])
        other = follows.process(left[: done.taken])
        assert (done.messages, done.rows) == (other.messages, other.rows)
        assert counted(done) == counted(other)
        left = left[done.taken :]


def usual(offset: int, entity: str, review: str, random: Random) -> Record:
    vector = [random.gauss(0, 1) for _ in range(DIMENSION)]
    embedding = base64.b64encode(struct.pack(f"<{DIMENSION}f", *vector)).decode()
    body = {
        "type": "review.upserted",
        "entity_id": entity,
        "review_id": review,
        "rating": 4.5,
        "sentences": [{"text": f"Sentence {offset}.", "embedding": embedding}],
    }
    return Record("reviews", 0, offset, 1, entity.encode(), json.dumps(body).encode())


def in_pool(work: Work) -> int:
    assert work.processor._native is not None
    return len(work.processor._native)


def test_usual_events_are_for_the_pool_until_their_entity_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "MOST_SENTENCES", 300)
    random = Random(1)
    python, pool = both(0)
    for offset in range(0, native.MOST_SENTENCES + 20, 10):
        records = [usual(at, "e", f"r{at}", random) for at in range(offset, offset + 10)]
        done, other = python.process(records), pool.process(records)
        assert (done.messages, done.rows) == (other.messages, other.rows)
        is_small = offset + 10 <= native.MOST_SENTENCES
        assert (in_pool(pool), len(pool.processor._entities)) == ((1, 0) if is_small else (0, 1))


def test_large_entities_are_for_the_pool_while_there_is_room_for_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other they would drive out one another, and be read again for each event."""
    monkeypatch.setattr(native, "FEW_SENTENCES", 15)
    random = Random(6)
    python, pool = both(0, cache_bytes=130_000)
    for turn, entity in enumerate([*"abcdef", *"abcdef"]):
        for offset in range(turn * 30, turn * 30 + 30, 10):
            records = [usual(at, entity, f"r{at}", random) for at in range(offset, offset + 10)]
            done, other = python.process(records), pool.process(records)
            assert (done.messages, done.rows) == (other.messages, other.rows)
    before = {key for key in map(EntityKey, [0] * 6, "abcdef") if peek(pool, key) is not None}
    assert 0 < in_pool(pool) < 6
    assert before
    for at, key in enumerate(sorted(before), 360):
        pool.process([usual(at, key.entity_id, f"r{at}", random)])
        assert peek(pool, key) is not None
    pool.process([usual(400, "g", "r", random)])
    assert peek(pool, EntityKey(0, "g")) is None  # a small one needs no room


def peek(work: Work, key: EntityKey) -> Any:
    return work.processor._entities.peek(key)


def test_a_partition_that_comes_back_is_read_again() -> None:
    """Another worker may have had it in between."""
    random = Random(5)
    python, pool = both(0)
    records = [usual(at, "e", f"r{at}", random) for at in range(30)]
    python.process(records[:10])
    pool.process(records[:10])
    pool.processor.forget([0])
    pool.rows[0].write(python.process(records[10:20]).rows[0])
    pool.processor.begin(0)
    done, other = python.process(records[20:]), pool.process(records[20:])
    assert (done.messages, done.rows) == (other.messages, other.rows)
    assert in_pool(pool) == 1


def test_a_large_entity_stays_where_it_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "FEW_SENTENCES", 15)
    random = Random(7)
    _, pool = both(0)
    sides = []
    for offset in range(0, 50, 10):
        records = [usual(at, "e", f"r{at}", random) for at in range(offset, offset + 10)]
        if offset == 20:
            records[-1] = records[-1]._replace(value=b"no event")
        pool.process(records)
        sides.append(in_pool(pool))
    assert sides == [1, 1, 0, 0, 0]


def test_an_entity_changes_sides_with_its_events() -> None:
    random = Random(2)
    _, pool = both(0)
    other = Record("reviews", 0, 2, 1, b"e", b'{"type":"entity.deleted","entity_id":"e"}')
    sides = []
    for records in (
        [usual(0, "e", "r0", random), usual(1, "f", "r1", random)],
        [other, usual(3, "f", "r3", random)],
        [usual(4, "e", "r4", random)],
    ):
        pool.process(records)
        sides.append((in_pool(pool), len(pool.processor._entities)))
    assert sides == [(2, 0), (1, 0), (2, 0)]


def test_the_cache_is_that_of_both_sides() -> None:
    random = Random(3)
    _, pool = both(0, cache_bytes=60_000)
    for offset in range(0, 600, 20):
        records = [usual(at, f"e{at % 50}", f"r{at}", random) for at in range(offset, offset + 20)]
        stats = pool.process(records).stats
        assert stats.cache_bytes <= 60_000
        assert stats.cached_entities == in_pool(pool) + len(pool.processor._entities)
    assert 0 < in_pool(pool) < 50
    assert stats.limits["cache_bytes"] > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"emit": "final"},
        {"min_changes": 2},
        {"index": "sgtree"},
        {"native": "off"},
    ],
    ids=str,
)
def test_other_settings_leave_the_pool_out(changes: dict[str, Any]) -> None:
    made = config(**{"native": "auto", **changes})
    assert not Processor(made, lambda _: MemoryRows(), None).is_native


def phrased(*vectors: list[int], **fields: Any) -> FacetCriteria:
    """A facet of one phrase for each vector."""
    facets = [Facet(f"f{at}", phrases=("x",), **fields) for at in range(len(vectors))]
    matrix = np.zeros((len(vectors), DIMENSION), np.int16)
    matrix[:, : len(vectors[0])] = vectors
    return FacetCriteria(Definitions(facets), matrix)


@pytest.mark.parametrize(
    "changes",
    [
        of_facets(phrased([1], threshold=0.1234567891)),
        of_facets(phrased([0])),
        of_facets(phrased([1]), emit="coalesced"),
        of_facets(phrased([1]), distinct=True),
        of_facets(phrased([1]), distinct=True, by_text=True),
    ],
)
def test_some_facets_leave_the_pool_out(changes: dict[str, Any]) -> None:
    assert not Processor(config(native="auto", **changes), lambda _: MemoryRows(), None).is_native


def test_the_phrases_of_a_partition_are_those_in_its_rows() -> None:
    """Another machine may embed them otherwise."""
    random = Random(6)
    works = both(0, **of_facets(phrased([9, 0], [0, 9], threshold=0)))
    records = [usual(at, f"e{at // 10}", f"r{at}", random) for at in range(40)]
    changed = 0
    for at in range(0, 40, 10):
        done, other = (work.process(records[at : at + 10]) for work in works)
        assert done.messages == other.messages
        changed += sum(message.topic == "facets" for message in other.messages)
        for work in works:  # with the other facet first, as if it were configured anew
            work.config = replace(work.config, facets=phrased([0, 9], [9, 0], threshold=0))
            work.restart()
    assert changed > 10


def test_a_module_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.coversumm.native.native_sources", lambda: "others")
    monkeypatch.setattr(native, "native_module", native.native_module.__wrapped__)
    assert not Processor(config(native="auto"), lambda _: MemoryRows(), None).is_native
    with pytest.raises(SetupError, match=r"COVERSUMM_NATIVE=require: .*make setup"):
        Processor(config(native="require"), lambda _: MemoryRows(), None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"min_changes": 2}, "COVERSUMM_EMIT_MIN_CHANGES"),
        ({"emit": "final", "index": "sgtree"}, "--emit final, COVERSUMM_INDEX"),
    ],
)
def test_what_python_takes_all_of_is_not_required(changes: dict[str, Any], named: str) -> None:
    asked = config(**changes)
    assert native.why_python(replace(asked, native="auto")) == named
    assert native.why_python(asked) == "COVERSUMM_NATIVE=off"
    with pytest.raises(SetupError, match=f"COVERSUMM_NATIVE=require: .* because of {named};"):
        Processor(replace(asked, native="require"), lambda _: MemoryRows(), None)
