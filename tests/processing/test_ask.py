"""Answers to questions: over any reviews they are those of the definition, written plainly here."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.drive import DIMENSION, Driver, FakeEngine, config, delete, upsert
from tests.harness.load import read_reviews
from tests.processing.facet_runs import packed
from worker.coversumm.fixed_point import quantize
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import facet_criteria
from worker.facets.words import words_of
from worker.processing.ask import Ask, Question, asking, question_of, stem
from worker.processing.entities import EntityKey
from worker.processing.entity_view import FacetsView, read_view
from worker.state.entity import EntityRows
from worker.state.keys import header_key
from worker.storage.databases import Databases
from worker.summarizer import Summarizer
from worker.text.declared import Answering

LIMITS = Answering(near=0.5, about=0.7, sure=0.9)
WORDS = [
    "quiet",
    "rooms",
    "room",
    "night",
    "loud",
    "the",
    "is",
    "Straße",
    "ＱＵＩＥＴ",
    "host's",
    "?",
]
numbers = st.integers(-3, 3)
vectors = st.tuples(numbers, numbers, numbers).filter(any)
sentences = st.tuples(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join), vectors
)
reviews = st.fixed_dictionaries(
    {"sentences": st.lists(sentences, max_size=4)},
    optional={
        "rating": st.sampled_from([1, 2, 3, 4.5]),
        "occurred_at": st.sampled_from(["2026-01-01T00:00:00Z", "2026-06-01T12:00:00+02:00"]),
        "language": st.sampled_from(["en", "en-GB", "fr"]),
        "country": st.sampled_from(["NL", "FR"]),
        "verified": st.booleans(),
    },
)
choices = st.fixed_dictionaries(
    {"sentences": st.sampled_from(["1", "3", "50"])},
    optional={
        "rating_min": st.sampled_from(["2", "3"]),
        "rating_max": st.sampled_from(["2", "4.5"]),
        "language": st.sampled_from(["en", "fr-CA"]),
        "country": st.just("NL"),
        "verified": st.sampled_from(["true", "false"]),
        "since": st.just("2026-06-01T10:00:00Z"),
        "until": st.just("2026-06-01"),
    },
)


def cosine(a, b):
    a, b = [float(x) for x in a], [float(x) for x in b]
    return np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b))


def is_asked(review, chosen):
    rating, date = review.get("rating"), (review.get("occurred_at") or "")[:10]
    tests = {
        "rating_min": lambda value: rating is not None and rating >= float(value),
        "rating_max": lambda value: rating is not None and rating <= float(value),
        "language": lambda value: (review.get("language") or "")[:2] == value[:2],
        "country": lambda value: review.get("country") == value,
        "verified": lambda value: review.get("verified") is (value == "true"),
        "since": lambda _: date == "2026-06-01",  # at the very moment
        "until": lambda _: date == "2026-01-01",
    }
    return all(test(chosen[name]) for name, test in tests.items() if name in chosen)


def has(text, word):
    return stem(word) in {stem(other) for other in words_of(text)}


def definition(live, question, vector, chosen):
    """The ids of the sentences that answer, the reviews that speak of it, the reviews by word."""
    asked = {name: review for name, review in live.items() if is_asked(review, chosen)}
    stems = {stem(word): word for word in words_of(question) if word not in ("the", "is")}
    texts = [text for review in asked.values() for text, _ in review["sentences"]]
    every = sum(len(review["sentences"]) for review in live.values())
    counts = {word: sum(has(text, word) for text in texts) for word in stems}
    weights = {
        word: round(1000 * math.log(1 + (every - n + 0.5) / (n + 0.5)))
        for word, n in counts.items()
    }
    rows = sorted(
        (-cosine(quantize([numbers])[0], quantize([vector])[0]), f"{name}#{at}", text, numbers)
        for name, review in asked.items()
        for at, (text, numbers) in enumerate(review["sentences"])
    )
    found = []
    for distance, id_, text, numbers in rows:
        share = sum(weights[word] for word in stems if has(text, word))
        is_answer = -distance >= LIMITS.sure or (
            -distance >= LIMITS.near and share and 2 * share >= sum(weights.values())
        )
        is_copy = any(cosine(quantize([numbers])[0], quantize([v])[0]) > 0.8 for _, v in found)
        is_whole = 4 <= len(words_of(text)) <= 40 and not text.endswith("?")
        if is_answer and is_whole and not is_copy and len(found) < int(chosen["sentences"]):
            found.append((id_, numbers))
    ids = [id_ for id_, _ in found]
    about = {id_.split("#")[0] for distance, id_, *_ in rows if -distance >= LIMITS.about}
    mentions = {
        word: sum(any(has(text, s) for text, _ in review["sentences"]) for review in asked.values())
        for s, word in stems.items()
    }
    return ids, about | {id_.split("#")[0] for id_ in ids}, len(asked), mentions


def asked_of(driver, question, vector, chosen):
    ask = Ask(question_of(question, chosen), quantize([vector])[0], LIMITS)
    return read_view(driver.rows[0], EntityKey(0, "e"), ask, driver.config)


def event(offset, name, review):
    items = [{"text": text, "embedding": list(map(float, v))} for text, v in review["sentences"]]
    return upsert(offset, name, **{**review, "sentences": items})


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | reviews), min_size=1, max_size=14),
    st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
    vectors,
    choices,
)
def test_an_answer_is_that_of_the_definition(history, question, vector, chosen):
    driver, live = Driver(config(limits={"dimension": DIMENSION})), {}
    for offset, (name, review) in enumerate([("z", {"sentences": [("a", (1, 0, 0))]}), *history]):
        if review is None:
            driver.run(delete(offset, name))
            live.pop(name, None)
        else:
            driver.run(event(offset, name, review))
            live[name] = review
    answer = asked_of(driver, question, vector, chosen)
    ids, about, asked, mentions = definition(live, question, vector, chosen)
    assert [sentence.sentence_id for sentence in answer.sentences] == ids
    assert answer.answered == bool(ids)
    assert (answer.answer_review_count, answer.asked_review_count) == (len(about), asked)
    rarest = answer.mentions
    assert (rarest is None) == (not mentions)
    if rarest is not None:
        assert rarest.review_count == mentions[rarest.word] == min(mentions.values())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | reviews), max_size=14), vectors)
def test_what_speaks_of_a_facets_only_phrase_is_in_the_facet(history, vector):
    """The reviews are those of the facet. The answer is its sentences, nearest to the phrase first,
    without fragments, questions and near copies.
    """
    facet = Facet("asked", vectors=(packed(vector),), threshold=LIMITS.about, k=100)
    criteria = facet_criteria(Definitions([facet]), DIMENSION, None)
    driver = Driver(config(facets=criteria, facets_topic="facets", k=50))
    events = [event(0, "z", {"sentences": [("a b", vector)]})]
    for offset, (name, review) in enumerate(history, 1):
        events.append(delete(offset, name) if review is None else event(offset, name, review))
    driver.run_whole(*events[:7])
    driver.restart()
    driver.run_whole(*events[7:])
    key = EntityKey(0, "e")
    (found,) = read_view(driver.rows[0], key, FacetsView, driver.config).facets
    to, own = quantize([vector]), EntityRows(driver.rows[0], b"e", 0, DIMENSION)
    rows = {block.id(at): v for block in own.blocks() for at, v in enumerate(block.vectors)}
    expected = []
    for sentence in sorted(
        found.sentences,
        key=lambda of: (-cosine(rows[of.sentence_id.encode()], to[0]), of.sentence_id.encode()),
    ):
        near = rows[sentence.sentence_id.encode()]
        is_whole = len(words_of(sentence.text)) >= 4 and not sentence.text.endswith("?")
        if is_whole and all(cosine(near, rows[other.encode()]) <= 0.8 for other in expected):
            expected.append(sentence.sentence_id)
    ask = Ask(Question("", 50), to[0], Answering(LIMITS.about, LIMITS.about, LIMITS.about))
    answer = read_view(driver.rows[0], key, ask, driver.config)
    assert answer.answer_review_count == found.review_count
    assert [sentence.sentence_id for sentence in answer.sentences] == expected


@pytest.mark.parametrize(
    ("vector", "text", "question", "is_answered"),
    [
        ((1, 0, 0), "one two three four", "casino?", True),  # sure
        ((10, 4, 0), "one two three four", "casino?", True),  # cosine .928
        ((3, 4, 0), "one two three four", "casino?", False),  # near, .6
        ((3, 4, 0), "a loud room here", "loud room bar pool?", True),  # half of the weight
        ((3, 4, 0), "a loud hall of mine", "loud bar pool?", False),  # a third
        ((4, 10, 0), "a loud room here", "loud room?", False),  # .371
    ],
)
def test_what_answers(vector, text, question, is_answered):
    driver = Driver()
    other = ("bar pool", (0, 0, 1))  # as rare as the words of the sentence
    driver.run(event(0, "r", {"sentences": [(text, vector), other]}))
    assert asked_of(driver, question, (1, 0, 0), {}).answered == is_answered


def test_of_near_copies_the_nearest_answers():
    driver = Driver()
    near = [("one two three four", (10, 4, 0)), ("five six seven eight", (1, 0, 0))]
    driver.run(event(0, "r", {"sentences": near}))
    (sentence,) = asked_of(driver, "?", (1, 0, 0), {}).sentences
    assert sentence.text == "five six seven eight"


@pytest.mark.parametrize(
    ("chosen", "at", "beyond"),
    [
        ("rating_min", "2", "2.1"),
        ("rating_max", "2", "1.9"),
        ("since", "2026-06-01T12:00:00+02:00", "2026-06-01T10:00:00.1Z"),
        ("until", "2026-06-01T10:00:00.1Z", "2026-06-01T12:00:00+02:00"),
    ],
)
def test_ratings_are_inclusive_and_until_is_not(chosen, at, beyond):
    driver = Driver()
    facts = {"rating": 2, "occurred_at": "2026-06-01T10:00:00Z"}
    driver.run(event(0, "r", {"sentences": [("a b", (1, 0, 0))], **facts}))
    for value, count in ((at, 1), (beyond, 0)):
        asked = asked_of(driver, "?", (1, 0, 0), {chosen: value}).asked_review_count
        assert asked == count


@pytest.mark.parametrize(
    ("text", "count"), [("\uff31uiet rooms", 1), ("QUIETLY", 0), ("qui\u0307et", 1), ("Quieted", 1)]
)
@pytest.mark.parametrize("before", [0, 70])
def test_a_word_is_found_in_every_form_and_in_long_reviews(text, count, before):
    driver = Driver()
    long = [("x" * 1000, (1, 0, 0))] * before  # texts of two rows
    driver.run(event(0, "r", {"sentences": [*long, (text, (0, 1, 0))]}))
    assert asked_of(driver, "quiet", (1, 0, 0), {}).mentions.review_count == count


def test_reviews_after_a_long_one_are_counted_in_a_snapshot_too(tmp_path):
    driver = Driver()
    long = [("x" * 1000, (1, 0, 0))] * 70  # texts of two rows
    driver.run(event(0, "a", {"sentences": [*long, ("quiet", (0, 1, 0))]}))
    driver.run(event(1, "b", {"sentences": [("quiet", (0, 1, 0))]}))
    databases = Databases(tmp_path, 2**20, 1, pytest.fail)
    databases.write(0, dict(driver.rows[0].scan(b"")))
    ask = Ask(Question("quiet?"), quantize([(1, 0, 0)])[0], LIMITS)
    with databases.look(0, header_key(b"e")) as rows:
        answer = read_view(rows, EntityKey(0, "e"), ask, driver.config)
    databases.close()
    assert answer.mentions.review_count == 2


def test_a_model_that_declares_no_cosines_shows_the_nearest():
    driver = Driver()
    driver.run(event(0, "r", {"sentences": [("one two three four", (1, 0, 0))]}))
    ask = asking(Question("quiet?"), FakeEngine())
    answer = read_view(driver.rows[0], EntityKey(0, "e"), ask, driver.config)
    assert (answer.answered, answer.answer_review_count) == (None, None)
    assert [sentence.text for sentence in answer.sentences] == ["one two three four"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sentences": "0"}, "sentences is a number from 1 to 50"),
        ({"sentences": "x"}, "sentences is a number from 1 to 50, not 'x'"),
        ({"rating_min": "nan"}, "rating_min is a number such as 3 or 4.5, not 'nan'"),
        ({"language": "english"}, "language is a language tag such as en, not 'english'"),
        ({"verified": "yes"}, "verified is true or false, not 'yes'"),
        ({"since": "03/04/2019"}, "since is a date such as 2026-11-20, not '03/04/2019'"),
    ],
)
def test_what_cannot_be_read_is_named(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        question_of("quiet?", given)


def test_vectors_of_questions_are_checked():
    with pytest.raises(ValueError, match="no embedder here"):
        asking(Question("quiet?"), None)
    for vector in ([0.0, 0.0, 0.0], [math.nan] * 3):
        with pytest.raises(ValueError, match="vector: "):
            asking(Question("quiet?"), None, np.array(vector, np.float32))
    driver = Driver()
    driver.run(upsert(0, "r", "one"))
    ask = asking(Question("quiet?"), None, np.ones(4, np.float32))
    with pytest.raises(ValueError, match="vector has 4 numbers, not 3"):
        read_view(driver.rows[0], EntityKey(0, "e"), ask, driver.config)


def test_real_reviews_answer_what_they_say_and_nothing_else():
    stays = Summarizer(5)
    stays.add(review._asdict() for review in read_reviews(limit=120))
    entity = stays.entities()[0]
    answer = stays.ask(entity, "Is it easy to park?")
    assert answer.answered
    assert all("park" in sentence.text.lower() for sentence in answer.sentences)
    nothing = stays.ask(entity, "Is there a casino?")
    assert (nothing.answered, nothing.sentences, nothing.mentions.review_count) == (False, (), 0)
