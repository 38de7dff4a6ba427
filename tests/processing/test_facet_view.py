"""An entity's facets and overview by its rows: after any history those of brute force, of few
sentences and of many.
"""

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.coversumm.naive_short_view import cosine
from tests.harness.drive import DIMENSION, Driver, FakeEngine, config, upsert
from tests.harness.facet_model import FacetModel, label
from tests.harness.model import ratings
from tests.harness.oracle import brute_force
from tests.processing.facet_runs import FACETS, packed, runs, with_facets
from tests.processing.operations import ENTITIES
from worker.facets.definitions import Definitions, Facet, RatingRange
from worker.facets.membership import facet_criteria
from worker.processing import entity_view
from worker.processing.entities import EntityKey
from worker.processing.entity_view import (
    Extent,
    FacetsView,
    Overview,
    UnknownLanguage,
    fitting,
    read_view,
)
from worker.state import verify_partition
from worker.state.keys import FACET_SETS
from worker.state.rows import decode_review, encode_review

LANGUAGES = ("fr", "de", "qqq")  # texts here have none of them, and no text has the last
BY_LANGUAGE = facet_criteria(
    Definitions(
        [
            Facet("x", vectors=(packed([1, 0, 0]),), threshold=0),
            Facet("y", vectors=(packed([0, 1, 0]),), k=1),
            Facet("fans", rating=RatingRange(min=4), language=("fr", "qqq")),
            Facet("secret", newest=2, hidden=True),
        ],
        LANGUAGES,
    ),
    DIMENSION,
    FakeEngine().embed,
)


def view_of(driver, key, kind=FacetsView, extent=None):
    return read_view(driver.rows[key[0]], EntityKey(*key), kind, driver.config, extent)


def main_language(model, key):
    """That of the most live sentences among those declared, the first of equals."""
    counts = dict.fromkeys(LANGUAGES, 0)
    for _, _, review_id, *_ in model.entities[key].live().values():
        language = model.language(model.facts[(*key, review_id)][2])
        if language in counts:
            counts[language] += 1
    return max(LANGUAGES, key=counts.__getitem__)


def has_turn(model, facet):
    """An overview has the facets with sentences or mentions, of a language those with enough."""
    if facet.get("language"):
        return facet["sentence_count"] >= model.config.language_min
    return facet["sentence_count"] > 0 or facet.get("mentions", {}).get("review_count", 0) > 0


def turns_of(model, key, language):
    """The numbers of the facets that an overview reads."""
    definitions = model.config.facets.definitions
    numbers = {
        (facet.name, facet.only_language): n
        for n, facet in enumerate(definitions.facets)
        if not facet.hidden
    }
    found = []
    for known in model.now(key):
        if language not in (None, known.get("language")) or not has_turn(model, known):
            continue
        if not (definitions.languages and known["name"] == "everything"):
            found.append(numbers[known["name"], known.get("language")])
    return found


def naive_overview(model, key, extent, language=None):
    """The nearest sentence of each facet in turn, without near-copies of a chosen one: the number
    of the facet and the id.
    """
    members, ordered = model.members(key), turns_of(model, key, language)
    walks = []
    for number in ordered:
        live = {sid: sentence[1] for sid, sentence in members[number, 0].items()}
        ranking = brute_force(live, len(live), by_text=model.config.by_text)
        walks.append((number, live, ranking.ids))
    chosen = []
    is_full = False
    while not is_full:
        before = len(chosen)
        for number, live, walk in walks:
            for sid in walk:
                near = (cosine(live[sid], vector) > extent.threshold for _, _, vector in chosen)
                if len(chosen) < extent.count and not any(near):
                    chosen.append((number, sid, live[sid]))
                    break
        is_full = len(chosen) == before
    texts = [members[number, 0][sid][0] for number, sid, _ in chosen]
    taken = range(len(chosen)) if extent.words is None else fitting(texts, extent.words)
    return [(chosen[at][0], chosen[at][1].decode()) for at in taken]


extents = st.builds(
    Extent,
    st.sampled_from([None, 1, 3, 50]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([0.3, 0.8, 1 - 2**-53]),
)


@settings(max_examples=60, deadline=None)
@given(
    distinct=st.booleans(),
    by_text=st.booleans(),
    batches=runs(),
    extent=extents,
    candidates=st.sampled_from([1, 2, 512]),
)
def test_views_equal_brute_force(distinct, by_text, batches, extent, candidates):
    driver = Driver(with_facets(distinct=distinct, by_text=by_text))
    model = FacetModel(driver.config, FakeEngine.vector)
    model.run([record for _, batch in batches for record in batch])
    for _, batch in batches:
        driver.run_whole(*batch)
    for at, entity_id in enumerate(ENTITIES):
        key = at, entity_id
        view = view_of(driver, key)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entity_view, "CANDIDATES", candidates)
            overview = view_of(driver, (at, entity_id), Overview, extent)
        if key not in model.entities:
            assert view is overview is None
            continue
        now = model.now(key)
        assert msgspec.to_builtins(view.facets) == tuple(now)
        reviews = [review for review in model.entities[key].reviews.values() if review.live]
        assert view.review_count == len(reviews)
        assert msgspec.to_builtins(view.ratings) == ratings([review.rating for review in reviews])
        assert view.sequence == model.sets.get(key, (None, None))[1]
        assert overview.ratings == view.ratings
        assert msgspec.to_builtins(overview.facets) == tuple(
            nameless(facet) for facet in now if has_turn(model, facet)
        )
        naive = naive_overview(model, key, extent)
        labels = [label_of(number) for number, _ in naive]
        shown = [(sentence.facet, sentence.sentence_id) for sentence in overview.sentences]
        assert shown == [(name, sid) for name, (_, sid) in zip(labels, naive, strict=True)]
        assert overview.language is UNSET
        counts = {label(facet): facet["sentence_count"] for facet in now}
        for rank, (quote, (number, sid)) in enumerate(zip(overview.sentences, naive, strict=True)):
            assert quote.rank == rank
            assert quote.facet_sentence_count == counts[quote.facet]
            text, _, review_id, rating, details = model.members(key)[number, 0][sid.encode()]
            assert (quote.text, quote.review_id, quote.rating) == (text, review_id, rating)
            assert quote.occurred_at == details.get("occurred_at")


def nameless(facet):
    """A facet whose quotes do not say who wrote them."""
    sets = {name: facet[name] for name in ("sentences", "pros", "cons") if name in facet}
    quotes = {
        name: [{key: member[key] for key in member if key != "author_id"} for member in sentences]
        for name, sentences in sets.items()
    }
    return facet | quotes


def label_of(number):
    facet = FACETS.definitions.facets[number]
    return f"{facet.name} ({facet.only_language})" if facet.only_language else facet.name


@settings(max_examples=60, deadline=None)
@given(
    least=st.sampled_from([1, 2, 5]),
    batches=runs(),
    asked=st.sampled_from([None, *LANGUAGES]),
    extent=extents,
)
def test_views_of_one_language_equal_brute_force(least, batches, asked, extent):
    limits = {"label_bits": BY_LANGUAGE.label_bits}
    driver = Driver(
        config(facets=BY_LANGUAGE, facets_topic="facets", limits=limits, language_min=least)
    )
    model = FacetModel(driver.config, FakeEngine.vector)
    model.run([record for _, batch in batches for record in batch])
    for _, batch in batches:
        driver.run_whole(*batch)
    for at, entity_id in enumerate(ENTITIES):
        key = at, entity_id
        overview = view_of(driver, key, Overview, replace(extent, language=asked))
        if key not in model.entities:
            assert overview is None
            continue
        now = model.now(key)
        view = view_of(driver, key, FacetsView, Extent(language=asked))
        assert msgspec.to_builtins(view.facets) == tuple(
            facet for facet in now if asked in (None, facet["language"])
        )
        language = asked or main_language(model, key)
        assert overview.language == language
        assert msgspec.to_builtins(overview.facets) == tuple(
            nameless(facet)
            for facet in now
            if facet["sentence_count"] >= least
            and facet["language"] == language
            and facet["name"] != "everything"
        )
        counts = {
            facet["name"]: facet["sentence_count"] for facet in now if facet["language"] == language
        }
        names = [facet.name for facet in BY_LANGUAGE.definitions.facets]
        naive = naive_overview(model, key, extent, language)
        assert [
            (sentence.facet, sentence.sentence_id, sentence.facet_sentence_count)
            for sentence in overview.sentences
        ] == [(names[n], sid, counts[names[n]]) for n, sid in naive]


def of_languages(facets, *reviews, least=1):
    """A worker after reviews: the language of each, and its sentences."""
    driver = Driver(config(facets=facets, facets_topic="facets", language_min=least))
    for at, (language, *sentences) in enumerate(reviews):
        driver.run(upsert(at, f"r{at}", *sentences, language=language))
    return driver


def test_an_overview_reads_the_facets_of_the_main_language():
    near, other = [("Quiet.", [1, 0, 0]), ("Clean.", [0, 1, 0])], [("Fin.", [-1, -1, 0])]
    driver = of_languages(BY_LANGUAGE, ("de", *near), ("fr", *near), ("fr", *other), least=1)
    shown = view_of(driver, (0, "e"), Overview)
    assert (shown.language, {sentence.facet for sentence in shown.sentences}) == ("fr", {"x", "y"})
    assert shown.languages == {"fr": 2, "de": 1}
    assert {sentence.review_id for sentence in shown.sentences} == {"r1"}
    asked = view_of(driver, (0, "e"), Overview, Extent(language="de"))
    assert (asked.language, {sentence.review_id for sentence in asked.sentences}) == ("de", {"r0"})
    assert view_of(driver, (0, "e"), Overview, Extent(language="qqq")).sentences == ()


def test_a_facet_of_a_language_needs_enough_sentences():
    mixed = facet_criteria(
        Definitions(
            [
                Facet("french", language=("fr",)),
                Facet("new", newest=1),
                Facet("x", language=("de",)),
            ]
        ),
        DIMENSION,
        None,
    )
    sentences = [(f"s{n}", [math.cos(n / 3), math.sin(n / 3), 0]) for n in range(4)]
    driver = of_languages(mixed, ("de", *sentences[:3]), ("fr", *sentences), least=4)
    shown = view_of(driver, (0, "e"), Overview, Extent(threshold=0.999))
    assert {sentence.facet for sentence in shown.sentences} == {"french (fr)", "new"}
    assert shown.language is UNSET


@pytest.mark.parametrize(
    ("facets", "message"),
    [
        (BY_LANGUAGE, "language 'nl': the facets are in fr, de, qqq"),
        (FACETS, "language 'nl': no facet is of one language"),
    ],
)
def test_an_unknown_language_is_refused_with_the_known_ones(facets, message):
    driver = of_languages(facets, ("fr", ("Quiet.", [1, 0, 0])))
    for kind in (FacetsView, Overview):
        with pytest.raises(UnknownLanguage, match=message):
            view_of(driver, (0, "e"), kind, Extent(language="nl"))


@settings(max_examples=60, deadline=None)
@given(least=st.sampled_from([1, 2, 3]), by_text=st.booleans(), batches=runs())
def test_verify_recomputes_facets(least, by_text, batches):
    driver = Driver(with_facets(min_changes=least, by_text=by_text))
    for _, batch in batches:
        driver.run_whole(*batch)
    for rows in driver.rows.values():
        checks = verify_partition(
            rows, dimension=3, k=3, distinct=False, by_text=by_text, min_changes=least
        )
        assert [check.problems for check in checks if check.problems] == []


def test_verify_finds_a_wrong_facet():
    driver = Driver(with_facets())
    driver.run(upsert(0, "r", "good", rating=5))
    (key,) = [key for key, _ in driver.rows[0].scan(b"E") if key.endswith(FACET_SETS)]
    old = driver.rows[0].get(key)
    driver.run(upsert(1, "s", "bad", rating=5))
    driver.rows[0].write({key: old})
    ((check),) = verify_partition(driver.rows[0], dimension=3, k=3, distinct=False)
    assert "facet 'fans': not published, but among the nearest: s#0" in check.problems
    assert all(problem.startswith("facet ") for problem in check.problems)


def problems_of(rows):
    """What `verify` says of the only entity."""
    (check,) = verify_partition(rows, dimension=DIMENSION, k=3, distinct=False)
    return check.problems


def test_verify_finds_wrong_mentions():
    definitions = Definitions([Facet("noise", rating=RatingRange(min=1), words=("loud",))])
    facets = facet_criteria(definitions, DIMENSION, None)
    driver = Driver(config(facets=facets, facets_topic="facets"))
    driver.run(upsert(0, "r", ("It was loud.", [1, 0, 0]), rating=5))
    rows = driver.rows[0]
    assert problems_of(rows) == ()
    key, value = next((k, v) for k, v in rows.scan(b"E") if k.endswith(b"Rr"))
    rows.write({key: encode_review(key, decode_review(key, value)._replace(mentions=0))})
    assert problems_of(rows) == ("review b'r' does not have the mentions of its sentences",)


@pytest.mark.parametrize("bits", [0, 0b11])
def test_verify_finds_wrong_quotes(bits):
    """The first facet quotes its word, the second the same of sentences with a label."""
    rooms = Facet("rooms", rating=RatingRange(min=1), words=("rooms",), quotes="words")
    late = Facet("late", newest=1, words=("loud",), quotes="words")
    facets = facet_criteria(Definitions([rooms, late]), DIMENSION, None)
    driver = Driver(config(facets=facets, facets_topic="facets"))
    driver.run(upsert(0, "r", ("Quiet rooms near the old harbour.", [1, 0, 0]), rating=5))
    rows = driver.rows[0]
    assert problems_of(rows) == ()
    key, value = next((k, v) for k, v in rows.scan(b"E") if k.endswith(b"Rr"))
    row = decode_review(key, value)
    assert row.label_bits == {0: 1}
    rows.write({key: encode_review(key, row._replace(label_bits={0: bits} if bits else {}))})
    assert "sentence b'r#0' does not have the facets that quote it" in problems_of(rows)


def test_only_what_is_chosen_stands_for_others():
    """The nearest fan is near to the critic's sentence, which comes first, and so is not chosen;
    the last fan is near to that fan alone, and has its turn.
    """
    definitions = Definitions(
        [Facet("critics", rating=RatingRange(max=1)), Facet("fans", rating=RatingRange(min=4))]
    )
    facets = facet_criteria(definitions, DIMENSION, None)
    driver = Driver(config(facets=facets, facets_topic="facets"))
    critic, *fans = [
        (f"at {angle}", [math.cos(math.radians(angle)), math.sin(math.radians(angle)), 0])
        for angle in (0, 10, 20, 40)
    ]
    driver.run(upsert(0, "r", *[critic] * 4, rating=1), upsert(1, "s", *fans, rating=4))
    overview = view_of(driver, (0, "e"), Overview, Extent(threshold=0.9))
    assert [sentence.text for sentence in overview.sentences] == ["at 0", "at 40"]
