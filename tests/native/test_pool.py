"""The pool gives the messages and rows of the Python form, byte for byte, for all that it takes."""

import json
from itertools import islice
from random import Random

import pytest

from tests.fuzz.mutate import mutated
from tests.harness.drive import (
    Driver,
    base64_vector,
    config,
    delete,
    delete_sentences,
    upsert,
)
from tests.native import streams
from tests.native.definitions import of_facets, random_facets
from tests.native.driver import MOST, PoolDriver, WatchedPool
from tests.native.streams import ENTITIES, records, waves
from worker.events.publishing import FACETS
from worker.facets.definitions import Definitions, Facet, Polarity, RatingRange
from worker.facets.membership import facet_criteria
from worker.state.keys import FACET_SETS, header_key, parse_entity_key
from worker.state.rows import PublishedSets, decode_published, encode_published, seal

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True, scope="module")
def _nothing_beats_on():
    yield
    WatchedPool.end()


def run(seed, oddness, driver=None, **settings):
    """A random history of a seed."""
    random = Random(seed)
    driver = driver or PoolDriver(**settings)
    dimension = driver.driver.config.limits.dimension
    stream = records(
        random,
        random.choice([30, 100, 300]),
        oddness,
        dimension=dimension,
        has_labels=driver.facets is not None,
    )
    while batch := list(islice(stream, random.choice([1, 2, 5, 20, 50]))):
        driver.run(batch)
        if random.random() < 0.2:
            driver.evict(random.choice([0, 3000, 10_000]))
    return driver


LIMITS = [
    {},
    {"max_sentences_per_entity": 5, "max_event_bytes": 500},
    {"max_text_bytes": 10, "max_sentences_per_review": 2},
    {"max_sentence_chars": 5, "max_sentences_per_deletion": 3, "model": None},
]


COPIES = [{}, {"distinct": True}, {"distinct": True, "by_text": True}]


@pytest.mark.parametrize("seed", range(64))
def test_pool_equals_python(seed):
    limits = LIMITS[seed // 8 % 4] if seed % 2 else {}
    most = [MOST, 6, 100][seed // 3 % 3]
    settings = {"emit": ["every", "every", "coalesced", "none"][seed % 4], **COPIES[seed % 3]}
    oddness = [0, 0.01, 0.05][seed // 2 % 3]
    run(seed, oddness, k=1 + seed % 5, most_sentences=most, limits=limits, **settings)


@pytest.mark.parametrize("seed", range(64))
def test_facets_equal_pythons(seed):
    made = of_facets(
        random_facets(Random(f"facets {seed}")),
        k=1 + seed % 5,
        emit_mentions=[0, 0, 1, 50, 100][seed % 5],
        limits=LIMITS[seed // 8 % 4] if seed % 4 == 0 else {},
    )
    run(seed, [0, 0.01, 0.05][seed % 3], most_sentences=[MOST, 6, 100][seed // 3 % 3], **made)


def run_waves(seed, most, **settings):
    """An entity that crosses the sizes at which native code changes its ways; the share of its
    events that the pool took.
    """
    random = Random(f"waves {seed}")
    limits = {"max_event_bytes": 10**6, **settings.pop("limits", {})}
    driver = PoolDriver(most_sentences=32_768, limits=limits, **settings)
    dimension = driver.driver.config.limits.dimension
    for batch in waves(random, most, dimension, driver.facets is not None):
        driver.run(batch)
        if random.random() < 0.1:
            driver.evict(0)
    assert driver.refills or most < 1000
    return driver.taken / driver.seen


@pytest.mark.parametrize("seed", range(12))
def test_large_entities_equal_pythons(seed):
    settings = {"emit": ["every", "coalesced"][seed % 2], **COPIES[seed % 3]}
    settings["limits"] = {"dimension": [3, 8, 40][seed // 3 % 3]}
    assert run_waves(seed, 300 + 50 * (seed % 7), k=[1, 3, 20][seed // 2 % 3], **settings) == 1


@pytest.mark.parametrize("seed", range(8))
def test_facets_of_large_entities_equal_pythons(seed):
    made = of_facets(random_facets(Random(f"facets of waves {seed}")), k=1 + seed % 5)
    assert run_waves(seed, 300 + 50 * (seed % 7), **made) == 1


@pytest.mark.parametrize("seed", range(3))
def test_entities_of_thousands_equal_pythons(seed):
    assert run_waves(seed, 4200, k=20, limits={"dimension": [8, 3, 40][seed]}, **COPIES[seed]) == 1


def test_an_entity_leaves_at_its_largest_and_comes_back():
    assert 0.5 < run_waves(0, 33_000, k=20) < 1


def test_an_entity_leaves_before_it_has_too_many_reviews():
    driver = PoolDriver(most_sentences=2)
    driver.run([upsert(0, "r", ("a", base64_vector([1, 0, 0])))])
    driver.run([delete(at, f"r{at}") for at in range(1, 16)])
    driver.run([delete(16, "r16")])
    assert (driver.taken, driver.seen) == (16, 17)


def test_those_used_longest_ago_leave_first():
    driver = PoolDriver()
    vector = base64_vector([1, 0, 0])
    for at, entity in enumerate("abca"):
        driver.run([upsert(at, f"r{at}", ("a", vector), entity_id=entity, partition=0)])
    assert driver.pool.evict(driver.pool.memory_bytes - 1) == 1
    absent = []
    batch = [delete(at, "r", entity_id=entity) for at, entity in enumerate("abc", 4)]
    batch = [record._replace(partition=0) for record in batch]
    driver.take(batch, lambda record: absent.append(record.key) or ())
    assert absent == [b"b"]
    driver.pool.forget({0})
    assert (len(driver.pool), driver.pool.memory_bytes) == (0, 0)


def test_words_that_take_too_much_are_forgotten():
    facets = facet_criteria(Definitions([Facet("all", words=("x",))]), 3, None)
    driver = PoolDriver(**of_facets(facets, limits={"max_sentence_chars": 10**5}))
    vector, most = base64_vector([1, 0, 0]), 8 << 20
    held = [0]
    for at in range(100):
        text = " ".join(f"{at}x{word}" for word in range(2000))
        review = upsert(at, "r", (text, vector))
        driver.pool.take(
            [review], [0], {}, lambda *_: (), lambda _, tag, texts: [(0, [])] * len(texts)
        )
        held.append(driver.pool.memory_bytes)
        driver.pool.evict(1 << 30)
    assert max(held) > most
    assert held[-1] < most


def test_a_facet_is_stored_in_the_order_of_its_publication():
    """It is ranked in another order before its row is written."""
    facet = Facet("all", rating=RatingRange(min=0), k=3)
    driver = PoolDriver(**of_facets(facet_criteria(Definitions([facet]), 3, None)))
    vectors = [base64_vector(vector) for vector in ([1, 0, 0], [0.8, 0.6, 0], [0, 1, 0.5])]
    for_texts = [zip("abc", of, strict=True) for of in (vectors, vectors[::-1])]
    driver.run([upsert(0, "r", *for_texts[0], rating=4), upsert(1, "r", *for_texts[1], rating=4)])
    assert driver.taken == 2


def test_a_row_with_fewer_facets_is_refused():
    facets = [Facet("fans", rating=RatingRange(min=4)), Facet("critics", rating=RatingRange(max=2))]
    driver = PoolDriver(**of_facets(facet_criteria(Definitions(facets), 3, None)))
    driver.run([upsert(0, "r", ("a", base64_vector([1, 0, 0])), rating=4)])
    rows = dict(driver.driver.rows[0].scan(header_key(b"e")))
    (key,) = (key for key in rows if parse_entity_key(key).kind == FACET_SETS)
    assert driver.takes(0, b"e", rows.items())
    sequence, sets, mentions = decode_published(key, FACETS, rows[key])
    rows[key] = encode_published(key, FACETS, PublishedSets(sequence, sets[:1], mentions[:1]))
    assert not driver.takes(0, b"e", rows.items())


def test_other_threads_run_beside_native_code():
    """A review of a year later moves all others out of their facets, its deletion moves them in
    again. Heartbeats of the consumer come from another thread.
    """
    facets = [Facet(str(days), within_days=days) for days in range(1, 9)]
    criteria = facet_criteria(Definitions(facets), 384, None)
    driver = PoolDriver(4096, **of_facets(criteria, limits={"dimension": 384}))
    random = Random(1)

    def review(at, name, year):
        vector = base64_vector([random.gauss(0, 1) for _ in range(384)])
        return upsert(at, name, ("a", vector), occurred_at=f"{year}-11-20T12:00:00Z")

    batch = [review(at, f"r{at}", 2025) for at in range(1500)]
    for at in range(1500, 2000, 2):
        batch += [review(at, "late", 2026), delete(at + 1, "late")]
    reports = []
    assert len(driver.take(batch, lambda _: ())) == len(batch)
    driver.pool.process(lambda: reports.append(1))
    assert driver.pool.long_calls
    assert reports


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_products_at_the_margin_are_on_no_side(margin):
    good, bad = (base64_vector([1, 0, 0]),), (base64_vector([0, 1, 0]),)
    polarity = Polarity(good_vectors=good, bad_vectors=bad, margin=margin, middle=4.5)
    facet = Facet("all", rating=RatingRange(min=0), k=2, sides=True)
    facets = facet_criteria(Definitions([facet], polarity=polarity), 3, None)
    for seed in range(3):
        run(seed, 0, most_sentences=300, **of_facets(facets))


def test_phrases_at_their_thresholds(monkeypatch):
    """The nearest phrase decides, the first of equals, with cosines of 0.6, 0.8 and others."""
    monkeypatch.setattr(
        streams, "VECTORS", [[3, 4, 0], [4, 3, 0], [0, 9, 0], [-7, -7, 0], [7, 7, 0]]
    )
    phrases = [([5, 0, 0], 0.6), ([0, 9, 0], 1), ([10, 0, 0], 0), ([0, 5, 0], 0.8)]
    for some in (phrases, phrases[:2], phrases[::-1], phrases[3:]):
        facets = [
            Facet(str(at), vectors=(base64_vector(vector),), threshold=threshold, k=5)
            for at, (vector, threshold) in enumerate(some)
        ]
        run(1, 0, most_sentences=300, **of_facets(facet_criteria(Definitions(facets), 3, None)))


def test_reviews_at_the_ends_of_days(monkeypatch):
    dates = ["20T12:00:00.5Z", "19T12:00:00.5Z", "19T12:00:00.49Z", "18T13:00:00.5+01:00"]
    dates += ["18T12:00:00.4Z", "17T12:00:60Z", "17T12:00:59Z", "17T12:00:59.1Z"]
    monkeypatch.setattr(streams, "NEAR_DATES", [f"2026-11-{date}" for date in dates])
    monkeypatch.setitem(streams.FIELDS, "occurred_at", [None])
    facets = [Facet("day", within_days=1, k=5), Facet("two", within_days=2), Facet("1", newest=1)]
    made = of_facets(facet_criteria(Definitions(facets), 3, None))
    for seed in range(6):
        run(seed, 0, most_sentences=300, **made)


@pytest.mark.parametrize("has_facets", [True, False])
@pytest.mark.parametrize("dimension", [1, 2, 7, 384, 1000])
def test_other_dimensions(dimension, has_facets):
    settings = {"k": 5, "limits": {"dimension": dimension}}
    if has_facets:
        settings = of_facets(random_facets(Random(f"facets {dimension}"), dimension), **settings)
    driver = run(3, 0, most_sentences=300, **settings)
    assert driver.taken == driver.seen


@pytest.mark.parametrize("before", [{"min_changes": 3}, {"emit": "coalesced"}])
def test_sets_that_other_settings_published(before):
    """An entity whose last message does not have its summary is not for the pool."""
    for seed in range(10):
        stream = list(records(Random(seed), 60, 0))
        old, now = Driver(config(**before)), PoolDriver(most_sentences=200)
        for at in range(0, 30, 10):
            old.run_whole(*stream[at : at + 10])
        now.driver.rows = old.rows
        now.driver.restart()
        for at in range(30, 60, 10):
            now.run(stream[at : at + 10])


@pytest.mark.parametrize("seed", range(8))
def test_damaged_rows_are_refused(seed):
    driver = run(seed, 0, k=3, most_sentences=200)
    random = Random(seed)
    for partition, all_rows in driver.driver.rows.items():
        for entity in ENTITIES:
            rows = list(all_rows.scan(header_key(entity.encode())))
            for at, (key, value) in enumerate(rows):
                raw = bytearray(value)
                raw[random.randrange(1, len(raw))] ^= 1 << random.randrange(8)
                damaged = [*rows[:at], (key, bytes(raw)), *rows[at + 1 :]]
                assert not driver.takes(partition, entity.encode(), damaged)
                sealed = seal(key, bytes(raw)[5:], random.choice([value[0], 1, 2, 3, 4, 255]))
                for other in ([(key, sealed)], [], [(b"E", value)], [(key, value)] * 2):
                    driver.takes(partition, entity.encode(), [*rows[:at], *other, *rows[at + 1 :]])


def fuzz(seed, batches):
    """Mutated records of 20 entities at a time, each of which is refused or means the same."""
    random = Random(seed)
    driver = PoolDriver(k=3, most_sentences=1000)
    for number in range(batches):
        batch = []
        for place in range(20):
            (record,) = records(random, 1, 0.01, [f"e{place}"])
            value = mutated(random, [record.value or b"{}"])
            batch.append(record._replace(offset=20 * number + place, value=value))
        driver.run(batch)
    return driver


@pytest.mark.parametrize("seed", range(4))
def test_mutated_records(seed):
    driver = fuzz(seed, 50)
    assert driver.taken > driver.seen // 20


def nested(depth):
    """An unknown member of so many lists."""
    return {"unknown": json.loads("[" * depth + "]" * depth)}


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        *(
            ({"occurred_at": f"2026-11-20T12:00:00{zone}"}, is_zone)
            for zone, is_zone in {"+00:59": True, "+00:60": False, "-24:00": False}.items()
        ),
        *(
            ({"occurred_at": f"{year}-02-29T00:00:00Z"}, year in ("0000", "2000", "2024"))
            for year in ("0000", "1900", "2000", "2023", "2024", "2100")
        ),
        *((nested(depth), depth <= 16) for depth in (15, 16, 17)),
    ],
)
def test_edges_of_an_event(fields, is_taken):
    """Most of these are valid: Python takes what is not usual."""
    driver = PoolDriver()
    driver.run([upsert(0, "r", ("a", base64_vector([1, 0, 0])), **fields)])
    assert driver.taken == is_taken


@pytest.mark.parametrize(
    ("dimension", "texts", "is_taken"),
    [
        *((384, ["x"] * count, count <= 169) for count in (168, 169, 170, 171)),
        *((1, ["x" * 2046] * 15 + ["x" * last], last <= 2046) for last in (2045, 2046, 2047)),
    ],
)
def test_a_review_has_one_row_of_vectors_and_one_of_texts(dimension, texts, is_taken):
    """Of 128 KiB each, as four bytes a character, and eight a text."""
    limits = {"dimension": dimension, "max_event_bytes": 10**7, "max_sentence_chars": 5000}
    limits |= {"max_sentences_per_review": 200, "max_text_bytes": 10**6}
    driver = PoolDriver(300, limits=limits)
    vector = base64_vector([1] * dimension)
    driver.run([upsert(0, "r", *((text, vector) for text in texts))])
    assert driver.taken == is_taken


@pytest.mark.parametrize(
    ("most", "dimension", "ids", "is_taken"),
    [
        (MOST - 1, 3, ["r#0", "s#0"], False),
        (MOST - 1, 3, ["r#0", "r#1"], True),
        (MOST, 3, ["r#0", "s#0"], True),
        (2, 2**16, ["r#0", "s#0"], True),  # a row has the vector of one sentence
    ],
)
def test_a_deletion_that_may_rewrite_too_many_is_not_usual(most, dimension, ids, is_taken):
    limits = {"max_sentences_per_deletion": most, "dimension": dimension}
    driver = PoolDriver(limits=limits | {"max_event_bytes": 10**6})
    driver.run([upsert(0, "r", ("a", base64_vector([1] * dimension)))])
    driver.run([delete_sentences(1, *ids)])
    assert driver.taken == 1 + is_taken


def test_rows_of_other_formats_are_refused():
    facet = Facet("fans", rating=RatingRange(min=4), words=("a",))
    driver = PoolDriver(**of_facets(facet_criteria(Definitions([facet]), 3, None), emit_mentions=1))
    driver.run([upsert(0, "r", ("a", base64_vector([1, 0, 0])), rating=4)])
    rows = list(driver.driver.rows[0].scan(header_key(b"e")))
    assert sorted(value[0] for _, value in rows) == [1, 1, 2, 2, 4]  # the newest of each kind
    for at, (key, value) in enumerate(rows):
        for format in (0, value[0] + 1, 255):
            other = key, seal(key, value[5:], format)
            assert not driver.takes(0, b"e", [*rows[:at], other, *rows[at + 1 :]])
    assert driver.takes(0, b"e", rows)
