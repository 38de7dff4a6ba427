"""Every limit of the processor at its edge: what is exactly at it passes, one more does not, and
that is counted.
"""

import re
from dataclasses import replace
from json import dumps

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import limits as defaults
from tests.harness.drive import (
    DIMENSION,
    Driver,
    FakeEngine,
    config,
    delete,
    delete_entity,
    delete_sentences,
    record,
    upsert,
)
from worker.coversumm import max_sentences
from worker.errors import SetupError
from worker.events import (
    Cause,
    FacetsChanged,
    FacetSummary,
    LastFacets,
    Ratings,
    SummaryChanged,
    SummarySentence,
    change_message,
)
from worker.events.codec import OUTPUTS
from worker.events.fields import MAX_ID_CHARS, MAX_SENTENCE_ID_CHARS
from worker.events.messages import message_bytes
from worker.events.publishing import FACETS, SUMMARIES
from worker.events.ratings import HALVES
from worker.limits import Limit
from worker.processing.config import VECTOR_OVERHEAD, BatchLimits, processor_config
from worker.processing.embed import Embedder
from worker.processing.pace import Pace
from worker.processing.plan import BatchPlan
from worker.registry.output import AvroOutput
from worker.settings import MAX_SENTENCES_PER_ENTITY, Settings, settings_by_field
from worker.state.keys import last_change_key
from worker.state.rows import encode_last_change


def hits(driver, *records):
    """The outcomes of these records and the limits they hit."""
    batch = driver.run(*records)
    return [
        outcome for (_, outcome), count in batch.stats.outcomes.items() for _ in range(count)
    ], dict(batch.stats.limits)


def text(body):
    return {"type": "review.upserted", "review_id": "r", "text": body}


# -- what one event may bring ----------------------------------------------------------------------


def large(size):
    """An event of exactly so many bytes."""
    short = upsert(0, "r", "a").value
    return record(0, "e", short[:-1] + b" " * (size - len(short)) + b"}")


@pytest.mark.parametrize(
    ("limits", "within", "beyond", "outcome", "limit"),
    [
        ({"max_event_bytes": 300}, large(300), large(301), "too_large", Limit.EVENT_BYTES),
        ({"max_text_bytes": 4}, record(0, "e", text("éé")), record(0, "e", text("ééa")),
         "text_too_long", Limit.TEXT_BYTES),
        ({"max_sentences_per_review": 2}, upsert(0, "r", "a", "b"), upsert(0, "r", "a", "b", "c"),
         "too_many_sentences", Limit.SENTENCES_PER_REVIEW),
        ({"max_sentences_per_review": 2}, record(0, "e", text("One is here. Two is here.")),
         record(0, "e", text("One is here. Two is here. Three is here.")), "too_many_sentences",
         Limit.SENTENCES_PER_REVIEW),
        ({"max_sentence_chars": 3}, upsert(0, "r", ("abc", [1, 0, 0])),
         upsert(0, "r", ("abcd", [1, 0, 0])), "text_too_long", Limit.SENTENCE_CHARS),
    ],
)  # fmt: skip
def test_an_event_at_a_limit_passes_and_one_beyond_it_is_a_dead_letter(
    limits, within, beyond, outcome, limit
):
    assert hits(Driver(config(limits=limits)), within) == (["applied"], {})
    assert hits(Driver(config(limits=limits)), beyond) == ([f"dead_letter:{outcome}"], {limit: 1})


def test_a_deletion_names_so_many_sentences_and_no_more():
    driver = Driver(config(limits={"max_sentences_per_deletion": 2}))
    driver.run(upsert(0, "r", "a", "b", "c"))
    assert hits(driver, delete_sentences(1, "r#0", "r#1", "r#2")) == (
        ["dead_letter:too_many_sentences"],
        {Limit.SENTENCES_PER_DELETION: 1},
    )
    assert hits(driver, delete_sentences(2, "r#0", "r#1")) == (["applied"], {})


@pytest.mark.parametrize("event", [upsert(0, "r", "abcd"), record(0, "e", text("abcd"))])
def test_a_sentence_beyond_its_characters_is_split_and_counted(event):
    assert hits(Driver(config(limits={"max_sentence_chars": 4})), event) == (["applied"], {})
    assert hits(Driver(config(limits={"max_sentence_chars": 3})), event) == (
        ["applied"],
        {Limit.SENTENCE_CHARS: 1},
    )


def test_a_full_entity_takes_no_more_and_deletions_make_room():
    driver = Driver(config(limits={"max_sentences_per_entity": 3}))
    full = (["dead_letter:entity_full"], {Limit.SENTENCES_PER_ENTITY: 1})
    assert hits(driver, upsert(0, "a", "one", "two", "three")) == (["applied"], {})
    assert hits(driver, upsert(1, "b", "four")) == full
    # an edit that would make more
    assert hits(driver, upsert(2, "a", "one", "two", "3", "4")) == full
    assert hits(driver, upsert(3, "a", "one", "two", "3")) == (
        ["applied"],
        {},
    )  # and one that does not
    assert hits(driver, upsert(4, "b", "other", entity_id="f")) == (
        ["applied"],
        {},
    )  # each entity its own
    assert hits(driver, delete_sentences(5, "a#2")) == (["applied"], {})
    assert hits(driver, upsert(6, "b", "four")) == (["applied"], {})
    assert hits(driver, delete(7, "a")) == (["applied"], {})
    assert hits(driver, delete_entity(8)) == (["applied"], {})
    assert hits(driver, upsert(9, "c", "1", "2", "3", "4")) == full
    assert hits(driver, upsert(10, "c", "1", "2", "3")) == (["applied"], {})


def test_the_bound_of_exact_keys_lies_under_the_limit_of_an_entity():
    """Whatever may be set is ranked exactly in every dimension; what cannot be set does not pass
    either.
    """
    highest = settings_by_field()["dimension"].kind.parse("16384")
    assert max_sentences(highest) >= MAX_SENTENCES_PER_ENTITY
    parse = settings_by_field()["max_sentences_per_entity"].kind.parse
    assert parse(str(MAX_SENTENCES_PER_ENTITY)) == MAX_SENTENCES_PER_ENTITY
    with pytest.raises(ValueError, match=r"^$"):
        parse(str(MAX_SENTENCES_PER_ENTITY + 1))
    limits = defaults.event_limits(dimension=384, max_sentences_per_entity=10**9)
    planned = BatchPlan(replace(config(), limits=limits), None, Embedder(None, Pace()))
    assert planned._max_sentences == max_sentences(384) < 10**9


# -- dead letters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "cut"), [(0, False), (-1, True)])
def test_a_dead_letter_beyond_the_largest_message_is_cut_and_counted(room, cut):
    value = b"x" * 100_000
    letter = Driver().run(record(0, "e", value)).messages[0]
    size = 128 + 1 + len(value) + sum(16 + len(name) + len(data) for name, data in letter.headers)
    batch = Driver(config(max_message_bytes=size + room)).run(record(0, "e", value))
    assert dict(batch.stats.limits) == ({Limit.MESSAGE_BYTES: 1} if cut else {})
    assert len(batch.messages[0].value) == (64 * 2**10 if cut else len(value))
    assert ("dlq.truncated_bytes" in dict(batch.messages[0].headers)) is cut


# -- the cache -------------------------------------------------------------------------------------


def test_entities_beyond_the_caches_bytes_are_evicted_and_counted():
    def two_entities(cache_bytes):
        driver = Driver(config(cache_bytes=cache_bytes))
        batch = driver.run(
            upsert(0, "r", "one", entity_id="a"), upsert(1, "r", "two", entity_id="b")
        )
        return batch.stats

    needed = two_entities(10**9).cache_bytes
    assert dict(two_entities(needed).limits) == {}
    assert two_entities(needed).cached_entities == 2
    assert dict(two_entities(needed - 1).limits) == {Limit.CACHE_BYTES: 1}
    assert two_entities(needed - 1).cached_entities == 1
    assert dict(two_entities(0).limits) == {Limit.CACHE_BYTES: 2}


# -- a micro-batch and its transaction -------------------------------------------------------------


def stored(driver):
    return {number: dict(rows.scan(b"")) for number, rows in driver.rows.items()}


def run_all(driver, records):
    """Process and commit until all is done: the messages, the sizes of the parts, the limits that
    were hit.
    """
    messages, parts, limits = [], [], {}
    while records:
        batch = driver.run(*records)
        messages += batch.messages
        parts.append(batch.taken)
        for limit, count in batch.stats.limits.items():
            limits[limit] = limits.get(limit, 0) + count
        records = records[batch.taken :]
    return messages, parts, limits


REVIEWS = [upsert(offset, f"r{offset}", f"a{offset}", f"b{offset}") for offset in range(4)]


@pytest.mark.parametrize(
    ("limits", "parts", "hit"),
    [
        ({"bytes": 4 * REVIEWS[0].size}, [4], {}),
        ({"bytes": 4 * REVIEWS[0].size - 1}, [3, 1], {Limit.BATCH_BYTES: 1}),
        ({"bytes": 1}, [1, 1, 1, 1], {Limit.BATCH_BYTES: 3}),  # a larger one goes alone
        ({"events": 4}, [4], {}),
        ({"events": 3}, [3, 1], {Limit.BATCH_EVENTS: 1}),
    ],
)
def test_a_micro_batch_has_so_many_events_and_bytes(limits, parts, hit):
    _, taken, counted = run_all(Driver(config(batch=limits)), REVIEWS)
    assert (taken, counted) == (parts, hit)


@pytest.mark.parametrize(
    ("limit", "parts", "cuts"),
    [
        (8, [4], 0),
        (7, [3, 1], 1),  # cut where the limit is passed
        (2, [1, 1, 1, 1], 2),  # after a cut the next ones begin with as many as went through
        (1, [1, 1, 1, 1], 2),  # a single event always passes
    ],
)
def test_a_micro_batch_has_so_many_sentences(limit, parts, cuts):
    driver = Driver(config(batch={"sentences": limit}))
    _, taken, counted = run_all(driver, REVIEWS)
    assert taken == parts
    assert counted == ({Limit.BATCH_SENTENCES: cuts} if cuts else {})


def test_a_deletion_rewrites_reviews_of_so_many_sentences():
    driver = Driver(config(limits={"max_sentences_per_deletion": 4}))
    driver.run(upsert(0, "r", "a", "b", "c"), upsert(1, "s", "d", "e"), upsert(2, "t", *"fghijk"))
    batch = driver.run(delete_sentences(3, "r#0", "s#0"))
    assert batch.stats.outcomes == {("sentences.deleted", "dead_letter:too_many_sentences"): 1}
    assert batch.stats.limits[Limit.SENTENCES_PER_DELETION] == 1
    # one review always may
    batch = driver.run(delete_sentences(4, "t#0"), delete_sentences(5, "r#0"))
    assert batch.stats.outcomes == {("sentences.deleted", "applied"): 2}
    assert driver.run(delete_sentences(6, "r#1", "s#0")).stats.outcomes == {
        ("sentences.deleted", "applied"): 1
    }


def test_sentences_that_are_read_to_be_replaced_or_kept_count_too():
    driver = Driver(config(batch={"sentences": 6}))
    driver.run(upsert(0, "r", "a", "b", "c"))
    driver.run(upsert(1, "s", "a", "b", "c"))
    edits = [upsert(2, "r", "d"), delete_sentences(3, "s#0")]  # 3 + 1 and 3
    assert driver.run(*edits).taken == 1


def totals(records, **changes):
    """Messages and rows of the records in one transaction, and their bytes."""
    batch = Driver(config(**changes)).run(*records)
    rows = [
        (k, v)
        for changes in batch.rows.values()
        for k, v in changes.items()
        if k not in (b"A", b"F")
    ]
    sent = [(message.key, message.value) for message in batch.messages] + rows
    return len(sent), sum(len(key or b"") + len(value or b"") for key, value in sent)


@pytest.mark.parametrize("which", [Limit.TRANSACTION_RECORDS, Limit.TRANSACTION_BYTES])
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_transaction_at_its_limit_passes_and_one_beyond_is_halved(which, beyond):
    needed = totals(REVIEWS)[which == Limit.TRANSACTION_BYTES] - beyond
    driver = Driver(config(batch={which.value: needed}))
    batch = driver.run(*REVIEWS)
    assert batch.taken == (2 if beyond else 4)
    assert dict(batch.stats.limits) == ({which: 1} if beyond else {})


def test_dead_letters_count_in_a_transaction():
    letters = [record(offset, "e", b"x" * 1000) for offset in range(4)]
    assert Driver(config(batch={"transaction_bytes": 4 * 1001})).run(*letters).taken == 4
    assert Driver(config(batch={"transaction_bytes": 4 * 1001 - 1})).run(*letters).taken == 2


def test_texts_are_embedded_once_however_often_their_micro_batch_is_cut():
    engine = FakeEngine()
    records = [upsert(offset, f"r{offset}", f"text {offset}") for offset in range(8)]
    Driver(config(batch={"transaction_records": 1}), engine).run(*records)
    assert sorted(engine.asked) == [f"text {offset}" for offset in range(8)]


EVENTS = st.lists(
    st.one_of(
        st.builds(
            lambda r, *s: ("upsert", r, s),
            st.sampled_from("ab"),
            st.sampled_from("xyz"),
            st.sampled_from("xyz"),
        ),
        st.builds(lambda r: ("delete", r), st.sampled_from("ab")),
        st.builds(lambda r: ("sentence", r), st.sampled_from("ab")),
        st.just(("entity",)),
        st.just(("poison",)),
    ),
    max_size=12,
)


def as_record(offset, event):
    match event:
        case ("upsert", review, sentences):
            return upsert(offset, review, *sentences)
        case ("delete", review):
            return delete(offset, review)
        case ("sentence", review):
            return delete_sentences(offset, f"{review}#0")
        case ("entity",):
            return delete_entity(offset)
    return record(offset, "e", b"poison")


@settings(deadline=None, max_examples=150)
@given(
    EVENTS,
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(1, 3000),
    st.sampled_from([0, 10**8]),
)
def test_how_a_micro_batch_is_cut_changes_neither_messages_nor_rows(
    events, sentences, records, size, cache_bytes
):
    """After every part that was thrown away and done again: what is in memory is that of the
    committed rows.
    """
    source = [as_record(offset, event) for offset, event in enumerate(events)]
    limits = {"sentences": sentences, "transaction_records": records, "transaction_bytes": size}
    whole, cut = Driver(), Driver(config(batch=limits, cache_bytes=cache_bytes))
    assert run_all(cut, source)[0] == run_all(whole, source)[0]
    last = upsert(len(source), "z", "z")  # what is to be removed is removed in the end
    for driver in (whole, cut):
        for offset in range(len(source), len(source) + 8):
            driver.run(upsert(offset, "z", "z"))
    assert stored(whole) == stored(cut)
    assert whole.bodies(last) == cut.bodies(last)


# -- settings, table -------------------------------------------------------------------------------


def test_an_event_whose_vectors_may_be_more_than_a_transaction_is_refused_at_start(tmp_path):
    most = (2**20 * 64 - 4 * 2**20) // (VECTOR_OVERHEAD + 2 * DIMENSION)
    given = {"embedder": "none", "dimension": DIMENSION, "data_dir": tmp_path}
    with pytest.raises(
        SetupError, match=r"COVERSUMM_MAX_SENTENCES_PER_REVIEW: .*COVERSUMM_TRANSACTION_BYTES"
    ):
        processor_config(Settings(**given, max_sentences_per_review=most + 1), 1, None)
    assert processor_config(Settings(**given, max_sentences_per_review=most), 1, None)


def test_the_rows_of_the_largest_event_are_within_what_is_reckoned(tmp_path):
    """One event of as many sentences as a review may have: its rows are below the estimate that
    start checks.
    """
    many = 3000
    driver = Driver(config(limits={"max_sentences_per_review": many, "embeds": False}))
    vectors = np.random.default_rng(1).integers(1, 100, (many, DIMENSION)).tolist()
    event = upsert(0, "r", *[("é" * 20, vector) for vector in vectors])
    rows = list(driver.run(event).rows[0].items())
    assert sum(len(key) + len(value) for key, value in rows) <= many * (
        VECTOR_OVERHEAD + 2 * DIMENSION
    ) + len(event.value)


def test_the_limits_are_those_of_the_settings(tmp_path):
    chosen = Settings(
        data_dir=tmp_path,
        embedder="none",
        max_sentences_per_deletion=3,
        max_sentences_per_entity=4,
        batch_sentences=5,
        transaction_records=6,
        transaction_bytes=7 * 2**20,
        batch_size=8,
        batch_bytes=9 * 2**20,
    )
    made = processor_config(chosen, 1, None)
    assert made.limits == defaults.event_limits(
        embeds=False, max_sentences_per_deletion=3, max_sentences_per_entity=4
    )
    transaction = {"transaction_records": 6, "transaction_bytes": 7 * 2**20}
    assert made.batch == BatchLimits(sentences=5, events=8, bytes=9 * 2**20, **transaction)
    made = processor_config(chosen, 1, FakeEngine())
    assert (made.limits.dimension, made.limits.model, made.limits.embeds) == (
        DIMENSION,
        "fake",
        True,
    )


def largest_bodies(sign, facet_names):
    """A summary of 26 sentences, and facets of three each, every field as long as events allow."""
    stamp = f"2026-11-26T09:00:00.{'0' * 38}+00:00"
    ratings = Ratings(10**6, 13 / 3, dict.fromkeys(HALVES, 10**6))
    sentence = SummarySentence(
        rank=999,
        sentence_id=sign * MAX_SENTENCE_ID_CHARS,
        review_id=sign * MAX_ID_CHARS,
        text=sign * 2000,
        rating=-1.2345678901234567e-300,
        occurred_at=stamp,
        language=sign * 35,
        verified=False,
        country='"' * 24,
        author_id='"' * 64,
        distance=1.234567,
        support=10**6,
    )
    shared = {
        "entity_id": sign * MAX_ID_CHARS,
        "epoch": 2**31 - 1,
        "sequence": 2**63 - 1,
        "previous_sequence": 2**63 - 1,
        "review_count": 10**6,
        "sentence_count": 10**6,
        "cause": Cause("sentences.deleted", "t" * 249, 10**5, 2**63 - 1, sign * MAX_ID_CHARS),
        "occurred_at": stamp,
        "embedding_model": "m" * 200,
        "ratings": ratings,
    }
    ids = [sentence.sentence_id] * 26
    summary = SummaryChanged(sentences=[sentence] * 26, added=ids, removed=ids, k=26, **shared)
    parts = [FacetSummary(name, 100, 10**6, 10**6, ratings, [sentence] * 3) for name in facet_names]
    return summary, FacetsChanged(changed=list(facet_names), facets=parts, **shared)


def sent_bytes(topic, body, codec):
    """The larger of the body's message and of the row that has it until it is published."""
    cause = record(0, body.entity_id, b"")
    value = codec.encode(body)
    message = change_message(
        topic, "t", body.entity_id, body.epoch, body.occurred_at, value, cause, codec
    )
    key = last_change_key(body.entity_id.encode(), topic)
    last = LastFacets("t" * 249, 2**63 - 1, 2**41, body.occurred_at, value)
    row = len(key) + len(encode_last_change(key, last))
    return max(row, message_bytes(message.key, message.value, message.headers))


@pytest.mark.parametrize("output_format", ["json", "json-row", "avro"])
def test_the_largest_messages_count_all_that_they_have(tmp_path, output_format):
    sign = "\U0001f600" if output_format == "avro" else "\x01"
    names = [f"{sign * 99}{number:02d}" for number in range(13)]
    summary, facets = largest_bodies(sign, names)
    codec = OUTPUTS.get(output_format) or AvroOutput({SummaryChanged: 1, FacetsChanged: 2})
    path = tmp_path / "facets.toml"
    quoted = [dumps(name, ensure_ascii=False) for name in names]
    path.write_text("".join(f"[[facet]]\nname = {name}\nnewest = 9\n" for name in quoted))
    chosen = {"data_dir": tmp_path, "embedder": "none", "output_format": output_format, "k": 26}
    chosen |= {"schema_registry_url": "http://a"} if output_format == "avro" else {}
    with pytest.raises(SetupError, match="set at least") as refused:
        Settings(**chosen, max_message_bytes=2**18)
    least = int(re.search("set at least ([0-9]+)", str(refused.value))[1])
    assert 0.98 * least < sent_bytes(SUMMARIES, summary, codec) <= least
    Settings(**chosen, max_message_bytes=least)
    chosen |= {"k": 5, "facets": str(path)}
    tight = Settings(**chosen, max_message_bytes=2**18)
    with pytest.raises(SetupError, match=r"39 sentences .* of 13 facets") as refused:
        processor_config(tight, 1, None)
    most = int(re.search("may be ([0-9]+) bytes", str(refused.value))[1])
    assert 0.97 * most < sent_bytes(FACETS, facets, codec) <= most
    assert processor_config(replace(tight, max_message_bytes=most), 1, None).facets is not None
