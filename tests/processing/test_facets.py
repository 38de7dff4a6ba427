"""Facets of any history, with evictions and restarts: each facet and each message is what brute
force over the members gives.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import (
    DIMENSION,
    Driver,
    FakeEngine,
    config,
    delete,
    delete_entity,
    record,
    sent,
    upsert,
)
from tests.harness.facet_model import FacetModel
from tests.processing.facet_runs import runs, with_facets, with_texts
from tests.processing.test_facet_view import view_of
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.state import CorruptRow, FingerprintMismatch
from worker.state.keys import ENTITY, REVIEW, parse_entity_key

setups = st.fixed_dictionaries(
    {
        "k": st.integers(1, 4),
        "distinct": st.booleans(),
        "by_text": st.booleans(),
        "emit": st.sampled_from(["every", "coalesced"]),
        "min_changes": st.sampled_from([1, 1, 2, 3]),
        "emit_mentions": st.sampled_from([0, 0, 1, 60]),
        "cache_bytes": st.sampled_from([0, 20_000, 10**8]),
        "index": st.sampled_from(["flat", "sgtree"]),
    }
)


@settings(max_examples=100, deadline=None)
@given(setup=setups, batches=runs(with_texts))
def test_facets_equal_brute_force(setup, batches):
    driver = Driver(with_facets(**setup))
    model = FacetModel(driver.config, FakeEngine.vector)
    for restart, batch in batches:
        if restart:
            driver.restart()
        expected, _ = model.run(batch)
        done = driver.run(*batch)
        assert [sent(message) for message in done.messages] == expected
        of_facets = [
            message for message in done.messages if message.topic == "facets" and message.value
        ]
        assert done.stats.facets_changes == len(of_facets)


@settings(max_examples=60, deadline=None)
@given(setup=setups, batches=runs())
def test_without_facets_everything_is_as_before(setup, batches):
    """Of the same events, the summaries of a worker with facets are those of one without."""
    plain_driver, other = Driver(config(**setup)), Driver(with_facets(**setup))
    for _, batch in batches:
        plain = plain_driver.run_whole(*batch).messages
        rich = [
            message for message in other.run_whole(*batch).messages if message.topic != "facets"
        ]
        assert plain == rich


def test_the_language_of_a_review_is_its_tags_or_that_of_its_text():
    definitions = Definitions([Facet("critics", rating=RatingRange(max=1))], ("en", "fr"))
    driver = Driver(
        config(facets=facet_criteria(definitions, DIMENSION, None), facets_topic="facets")
    )
    texts = {
        "r": ("La chambre était propre et le petit déjeuner excellent.", None),
        "s": ("The room was clean and the breakfast excellent.", None),
        "t": ("The room was clean and the breakfast excellent.", "fr-CA"),
        "u": ("Das Zimmer war sauber und das Frühstück ausgezeichnet.", None),
        "v": ("Bon.", None),
    }
    for at, (name, (text, tag)) in enumerate(texts.items()):
        fields = {"language": tag} if tag else {}
        driver.run(upsert(at, name, (text, [1, at, 0]), rating=1, **fields))
    driver.restart()
    driver.run(upsert(9, "w", ("Nous avons passé un excellent séjour ici.", [0, 1, 1]), rating=5))
    facets = view_of(driver, (0, "e")).facets
    found = {facet.label: sorted({two.review_id for two in facet.sentences}) for facet in facets}
    assert found == {
        "everything (fr)": ["r", "t", "w"],
        "critics (fr)": ["r", "t"],
        "critics (en)": ["s"],
        "everything (en)": ["s"],
    }
    assert [facet.language for facet in facets] == ["fr", "fr", "en", "en"]


def test_a_text_is_split_by_its_language_if_facets_depend_on_it():
    text = "Alles war super. Am 3. Mai kam der Hr. Schmidt."
    definitions = Definitions([Facet("critics", rating=RatingRange(max=1))], ("de",))
    by_language = facet_criteria(definitions, DIMENSION, None)
    found = []
    for facets in (None, by_language):
        for tag in ("de-AT", "en", None):
            driver = Driver(config(facets=facets, facets_topic="facets"), FakeEngine())
            body = {"type": "review.upserted", "review_id": "r", "text": text, "language": tag}
            (message,) = [
                message
                for message in driver.run(record(0, "e", body)).messages
                if message.topic != "facets"
            ]
            found.append(
                sorted(sentence["text"] for sentence in json.loads(message.value)["sentences"])
            )
    english = ["Alles war super.", "Am 3.", "Mai kam der Hr. Schmidt."]
    german = ["Alles war super.", "Am 3. Mai kam der Hr. Schmidt."]
    assert found == [english, english, english, german, english, german]


@pytest.mark.parametrize("emit", ["every", "coalesced"])
def test_a_change_for_a_deletion_alone_is_stored(emit):
    """No set changed: the sentence that is deleted was only in the set last published."""
    driver = Driver(with_facets(min_changes=5, emit=emit))
    driver.run(upsert(0, "r", "good", rating=5))
    driver.run(upsert(1, "s", "fine", rating=5))
    driver.run(upsert(2, "r", rating=5))  # without sentences, and not published
    driver.restart()
    messages = driver.run(delete(3, "r")).messages
    assert [
        json.loads(message.value)["sequence"] for message in messages if message.topic == "facets"
    ] == [3]
    driver.restart()
    messages = driver.run(delete_entity(4)).messages
    last = next(json.loads(message.value) for message in messages if message.topic == "facets")
    assert last["previous_sequence"] == 3


def test_vectors_without_their_review_are_a_corrupt_row():
    driver = Driver(with_facets())
    driver.run(upsert(0, "r", ("bad", [1, 0, 0])))
    rows = driver.rows[0]
    (gone,) = [key for key, _ in rows.scan(ENTITY) if parse_entity_key(key).kind == REVIEW]
    rows.write({gone: None})
    driver.restart()
    with pytest.raises(CorruptRow, match=r"review b'r'.*it has vectors, and is missing"):
        driver.run(upsert(1, "s", ("good", [0, 1, 0])))


def fans(**changes):
    """A facet of good ratings alone."""
    facets = facet_criteria(
        Definitions([Facet("fans", rating=RatingRange(min=4))]), DIMENSION, None
    )
    return config(facets=facets, facets_topic="facets", **changes)


@pytest.mark.parametrize(("before", "after"), [(fans, config), (config, fans), (fans, with_facets)])
def test_other_definitions_need_another_state(before, after):
    driver = Driver(before())
    driver.run(upsert(0, "r", "good", rating=5))
    driver.config = after()
    driver.restart()
    with pytest.raises(FingerprintMismatch, match="facets"):
        driver.processor.check_partition(0)


def test_the_end_of_a_replay_counts_the_records_of_facets():
    """A message and a row of the summary, and of the facets."""
    driver = Driver(fans(emit="final", batch={"transaction_records": 8}))
    for offset in range(5):
        driver.run(upsert(offset, "r", "good", entity_id=f"e{offset}", rating=5))
    chunks = [driver.processor.finish(0, 5) for _ in range(3)]
    assert [len(chunk.messages) for chunk in chunks] == [4, 4, 2]
    assert [chunk.is_end for chunk in chunks] == [False, False, True]
