"""What the study of quality counts: scores, silver summaries, rankings, the walk, what is followed
and what is out of date.
"""

import gzip
import hashlib
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.sparse import csr_array

from docs.build import quality as tables
from tests.bench.paper.methods import METHODS, Setting
from tests.bench.paper.screen import Screen
from tests.bench.quality import (
    aspects,
    calibration,
    data,
    hotels,
    staleness,
    study,
    tracking,
    views,
)
from tests.bench.quality.__main__ import main
from tests.bench.quality.calibration import Known, NotCalibrated, calibrate
from tests.bench.quality.contenders import OURS, SHORT, contenders, step_by_step
from tests.bench.quality.data import DataError
from tests.bench.quality.entity import Entity, Review, entity
from tests.bench.quality.figures import Figures
from tests.bench.quality.ranking import by_sumy, centroid_opt, lex_rank, lsa, sum_basic, text_rank
from tests.bench.quality.rouge import Rouge, jackknife, mean, rouge, scored
from tests.bench.quality.silver import Silver
from tests.bench.quality.walk import text_of, vectorizer, walk
from tests.bench.quality.words import content_words, words_of
from worker.coversumm import quantize

pytestmark = pytest.mark.long

DIMENSION = 12
SETTING = Setting(k=3, dimension=DIMENSION, width=40_000.0)
SENTENCES = st.lists(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6).map(" ".join),
    min_size=1,
    max_size=7,
)


def embed(sentences):
    """Bags of hashed words: like sentences are near."""
    vectors = np.full((len(sentences), DIMENSION), 0.01)
    for row, sentence in enumerate(sentences):
        for word in sentence.lower().split():
            vectors[row, hashlib.sha256(word.encode()).digest()[0] % DIMENSION] += 1
    return quantize(vectors) if sentences else np.empty((0, DIMENSION), np.int16)


def of(reviews, ratings=None):
    ratings = ratings or [None] * len(reviews)
    made = [
        Review(list(sentences), stars) for sentences, stars in zip(reviews, ratings, strict=True)
    ]
    return entity("e", made, embed([one for review in made for one in review.sentences]))


def hotel_of(entity_, references):
    fitted = vectorizer(entity_.sentences)
    return hotels.Hotel(entity_, references, csr_array(fitted.transform(entity_.sentences)))


# ---- scores


def test_rouge_by_hand():
    """Five words each, four in common, three in a row: 'the room was' and 'clean'."""
    score = rouge("the room was very clean", "the room was quite clean")
    assert score == pytest.approx(Rouge(80.0, 50.0, 80.0))
    # stems, precision 1, recall a half
    assert rouge("rooms", "the room").r1 == pytest.approx(200 / 3)
    assert rouge("", "the room") == Rouge(0.0, 0.0, 0.0)


def test_two_protocols_of_several_references():
    scores = [Rouge(10, 1, 5), Rouge(40, 2, 6), Rouge(20, 3, 7)]
    assert mean(scores) == pytest.approx(Rouge(70 / 3, 2, 6))
    # left out: the first (40, 3, 7), the second (20, 3, 7), the third (40, 2, 6)
    assert jackknife(scores) == pytest.approx(Rouge(100 / 3, 8 / 3, 20 / 3))
    assert jackknife(scores[:1]) == mean(scores[:1]) == scores[0]


@given(st.lists(st.tuples(*[st.floats(0, 100)] * 3).map(Rouge._make), min_size=2, max_size=5))
def test_the_jackknife_is_between_the_mean_and_the_best(scores):
    for low, middle, high in zip(
        mean(scores), jackknife(scores), map(max, zip(*scores, strict=True)), strict=True
    ):
        assert low - 1e-9 <= middle <= high + 1e-9


TEXTS = {"s": {"h1": "the room was clean", "h2": "nice pool"}}
REFERENCES = {"h1": ["the room was very clean", "dirty"], "h2": ["a nice pool", "nice staff"]}


def known(**off):
    score = calibration.system_score(TEXTS["s"], REFERENCES)
    return Known(
        "s",
        "S",
        Rouge(0, 0, 0),
        **{name: Rouge(*(v + off.get(name, 0) for v in score[name])) for name in score},
    )


def test_calibration_lets_through_what_is_right():
    (row,) = calibrate(TEXTS, REFERENCES, [known(mean=0.049, jackknife=-0.049)])
    assert row["system"] == "S"
    assert row["mean"] == [
        round(v, 2) for v in calibration.system_score(TEXTS["s"], REFERENCES)["mean"]
    ]


@pytest.mark.parametrize("protocol", ["mean", "jackknife"])
def test_calibration_stops_what_is_not(protocol):
    with pytest.raises(
        NotCalibrated,
        match=rf"S, {protocol}: .* in place of .*\nLook at the version of rouge-score",
    ):
        calibrate(TEXTS, REFERENCES, [known(**{protocol: 0.051})])
    with pytest.raises(NotCalibrated, match="no texts of the system 's'"):
        calibrate({}, REFERENCES, [known()])


def test_a_text_that_is_missing_scores_nothing():
    half = calibration.system_score({"h1": TEXTS["s"]["h1"]}, REFERENCES)["mean"].r1
    assert half == pytest.approx(
        mean([rouge(TEXTS["s"]["h1"], one) for one in REFERENCES["h1"]]).r1 / 2
    )


# ---- the walk and silver summaries


def test_the_walk_goes_on_behind_what_it_skips():
    sentences = [
        "lovely quiet garden",
        "lovely quiet garden!",
        "Nice.",
        "one two three four five",
        "friendly staff",
        "big pool",
    ]
    tfidf = csr_array(vectorizer(sentences).transform(sentences))
    # the twin, the single word and what does not fit are skipped, the rest is taken in the order of
    # the ranking
    assert walk([0, 1, 2, 3, 4, 5], sentences, tfidf, words=7) == [0, 4, 5]
    assert walk([4, 3, 0], sentences, tfidf, words=7) == [4, 3]
    assert walk([], sentences, tfidf) == []
    assert text_of([4, 0], sentences) == "friendly staff lovely quiet garden"


def test_a_silver_summary_is_greedy_and_looks_at_what_came_so_far():
    sentences = [
        "the pool is big",
        "we ate fish",
        "the staff was kind and the pool is big",
        "staff was kind",
    ]
    silver = Silver(sentences, ["the staff was kind", "kind staff"])
    assert silver.after(0) == []
    assert silver.after(1) == [0]  # "the": better than nothing
    assert silver.after(3) == [2]
    assert silver.after(4) == [3]
    apart, both = [*sentences[:2], sentences[3]], ["the staff was kind", "the pool is big"]
    assert Silver(apart, both).after(3) == [0, 2]
    assert Silver(apart, both, words=4).after(3) == [0]  # the second does not fit
    assert Silver(["kind staff"] * 2, ["kind staff"]).after(2) == [0]  # said once is enough
    assert Silver(sentences, ["zebra"]).after(4) == []


@given(
    SENTENCES,
    st.lists(
        st.lists(st.sampled_from("abcdefg"), min_size=2, max_size=8).map(" ".join),
        min_size=1,
        max_size=3,
    ),
)
def test_silver_scores_are_those_of_rouge(sentences, references):
    """The first sentence is one with the best mean of R1 and R2 over the references, and no
    sentence more would raise it.
    """

    def score(rows):
        of_ = [
            rouge(" . ".join(sentences[row] for row in rows), reference) for reference in references
        ]
        return np.mean([one.r1 for one in of_]), np.mean([np.mean([one.r1, one.r2]) for one in of_])

    chosen = Silver(sentences, references).after(len(sentences))
    best = max(score([row])[1] for row in range(len(sentences)))
    assert bool(chosen) == (best > 0)
    if len(chosen) == 1:
        assert score(chosen)[1] == pytest.approx(best)
    assert chosen == sorted(set(chosen))


# ---- rankings


def test_content_words_are_stems_without_stop_words():
    assert content_words("The rooms weren't cleaned, and the ROOM smelled!") == [
        "room",
        "weren't",
        "clean",
        "room",
        "smell",
    ]


def test_words_of_the_first_sentences():
    words = words_of([["a", "a", "b"], [], ["c", "a"]])
    assert words.counts.toarray().tolist() == [[2, 1, 0], [0, 0, 0], [1, 0, 1]]
    assert words.first(2).counts.toarray().tolist() == [[2, 1], [0, 0]]
    assert words.lengths.tolist() == [3, 0, 2]


def test_sum_basic_by_hand():
    """a is 3 of 6, so "a" comes first; a is then a quarter, and "b" with 2 of 6 is likelier than
    what has a in it.
    """
    words = words_of([["a", "c"], ["a"], ["b"], ["a", "b"], []])
    assert sum_basic.sum_basic(words, 5) == [1, 2, 0, 3, 4]
    assert sum_basic.sum_basic(words_of([[], []]), 1) == [0]


RANKINGS = (
    sum_basic.sum_basic,
    lex_rank.lex_rank,
    text_rank.text_rank,
    lsa.lsa,
    lsa.by_length_of_column,
)


@pytest.mark.parametrize("rank", RANKINGS)
@pytest.mark.parametrize(
    "sentences", [[[]], [["a"]], [[], []], [["a"], ["a"]], [["a"], [], ["a", "b", "b"]]]
)
def test_rankings_of_next_to_nothing(rank, sentences):
    ranked = rank(words_of(sentences), 2)
    assert sorted(set(ranked)) == sorted(ranked)
    assert len(ranked) == min(2, len(sentences))


def test_the_central_sentence_is_the_one_that_others_are_like():
    words = words_of(
        [
            ["x", "y"],
            ["room", "clean", "bed"],
            ["room", "p"],
            ["clean", "q"],
            ["bed", "r"],
            ["v", "w"],
        ]
    )
    assert lex_rank.lex_rank(words, 1) == [1]
    assert text_rank.text_rank(words, 1) == [1]


def test_lsa_looks_at_the_strong_topics_alone():
    """Sentences of one topic outweigh a long one of words that nobody else has; sumy's does not."""
    words = words_of([["a", "b"]] * 7 + [["p", "q", "r"]])
    assert lsa.lsa(words, 1) != [7]
    assert lsa.by_length_of_column(words, 1) == [7]


def test_rankings_are_those_of_sumy():
    rng = np.random.default_rng(5)
    sentences = [[f"w{word}" for word in rng.zipf(1.6, rng.integers(1, 9)) % 60] for _ in range(50)]
    assert by_sumy.differing(sentences) == []


def points(count=9, seed=3):
    return np.random.default_rng(seed).normal(size=(count, 4))


def test_centroid_opt_is_greedy():
    x = points()
    centroid, taken = x.mean(axis=0), []
    for _ in range(4):
        left = [row for row in range(len(x)) if row not in taken]
        taken.append(
            min(left, key=lambda row: np.linalg.norm(x[[*taken, row]].mean(axis=0) - centroid))
        )
    assert centroid_opt.centroid_opt(x, 4) == taken
    assert sorted(centroid_opt.centroid_opt(x[:3], 4)) == [0, 1, 2]


def test_the_published_centroid_opt_has_both_faults():
    """The first is the farthest from the centroid; for the second one number is added to every
    coordinate.
    """
    x = points()
    centroid = x.mean(axis=0)
    first = max(range(len(x)), key=lambda row: np.linalg.norm(x[row] - centroid))
    left = [row for row in range(len(x)) if row != first]
    second = max(left, key=lambda row: np.linalg.norm((x[first].sum() + x[row]) / 2 - centroid))
    assert centroid_opt.as_published(x, 2) == [first, second]
    assert centroid_opt.as_published(x[:2], 3) == [0, 1]


# ---- entities and contenders


REVIEWS = (
    ["the room was clean", "we liked the pool"],
    ["staff was kind", "the breakfast was good"],
    [],
    ["the room was very clean", "the bed was soft", "the staff was very kind"],
    ["breakfast was cold", "the pool was clean"],
)


def test_an_entity_in_another_order():
    one = of(REVIEWS, [5.0, 1.0, 2.0, 4.0, 3.0])
    assert [one.after(count) for count in range(6)] == [0, 2, 4, 4, 7, 9]
    other = one.in_order([3, 2, 0])
    assert other.sentences == [*REVIEWS[3], *REVIEWS[0]]
    assert other.review_of.tolist() == [0, 0, 0, 2, 2]
    assert other.ratings == [4.0, 2.0, 5.0]
    assert (other.vectors == embed(other.sentences)).all()
    assert one.only([8, 0]).sentences == [REVIEWS[4][1], REVIEWS[0][0]]


def test_contenders_rank_what_came_so_far():
    one = of(REVIEWS)
    names = set()
    for contender in contenders(SETTING):
        made = contender.make(one, [2, 5, 9])
        names.add(contender.name)
        for mark, ranked in made.after.items():
            assert len(ranked) == len(set(ranked)) <= 3
            assert max(ranked) < mark
            if contender.name != "naive-hnsw":
                assert len(ranked) == min(3, mark)
        assert made.summaries in (3, 9)
    assert {
        OURS,
        "random",
        "SumBasic",
        "LexRank",
        "TextRank",
        "LSA",
        "Centroid-OPT",
        "brute-force",
    } <= names


def test_exact_contenders_are_ours_and_ours_is_nearest():
    one = of(REVIEWS)
    marks = list(range(1, 10))
    ours = step_by_step(METHODS["exact"], SETTING, one, marks).after
    assert step_by_step(METHODS["brute-force"], SETTING, one, marks).after == ours
    x = one.vectors.astype(float)
    for mark in marks:
        distances = np.linalg.norm(x[:mark] - x[:mark].mean(axis=0), axis=1)
        assert sorted(distances[ours[mark]]) == pytest.approx(sorted(distances)[:3])


def test_a_hotel_is_looked_at_on_the_way_and_at_the_end(monkeypatch):
    monkeypatch.setattr(hotels, "EVERY", 2)
    one = of(REVIEWS)
    references = ["the room was clean and the staff was kind", "a clean room"]
    assert hotels.marks_of(one) == {"sentences": [2, 4, 6, 8], "reviews": [4, 7]}
    ways = [hotels.look_at(hotel_of(one, references), SETTING)]
    rows = {row["method"]: row for row in hotels.on_the_way([one], ways)}
    assert (
        rows["oracle"]["silver_sentences"]
        == rows["oracle"]["silver_reviews"]
        == [100.0, 100.0, 100.0]
    )
    assert rows[OURS]["silver_sentences"] == rows["brute-force"]["silver_sentences"]
    assert rows[OURS]["a_hotel"] == 9
    assert rows["SumBasic"]["a_hotel"] == 6  # after 2, 4, 6, 7, 8 and 9 sentences
    ends = {row["method"]: row for row in hotels.at_the_end(ways)}
    ranked = step_by_step(METHODS["exact"], SETTING, one, [9]).after[9]
    text = text_of(ranked, one.sentences)
    assert ends[hotels.UNCUT]["mean"] == [round(v, 2) for v in scored(text, references)["mean"]]
    assert ends[OURS]["r1_from_ours"] == [0.0, 0.0]
    low, high = ends["oracle"]["r1_from_ours"]
    assert low == high == pytest.approx(ends["oracle"]["mean"][0] - ends[OURS]["mean"][0], abs=0.02)
    assert {row["method"] for row in hotels.curves(ways, 1)} == set(rows)


def test_how_much_sentences_repeat_and_cover():
    one = of([["a b"], ["a b"], ["c d"]])
    assert hotels.repeats(one, [0, 1]) == pytest.approx(1.0, abs=0.01)
    assert hotels.repeats(one, [0, 2]) == pytest.approx(float(one.unit[0] @ one.unit[2]), abs=1e-6)
    assert hotels.repeats(one, [0]) == 0.0
    assert hotels.near(one, [0, 1, 2]) == pytest.approx(1.0, abs=0.01)
    assert hotels.near(one, [0]) == pytest.approx(float((one.unit @ one.unit[0]).mean()), abs=1e-6)
    assert hotels.near(one, []) == 0.0


def test_an_interval_is_around_the_mean():
    assert hotels.interval([2.0] * 5) == [2.0, 2.0]
    low, high = hotels.interval([0.0, 1.0, 2.0, 3.0])
    assert 0 <= low < 1.5 < high <= 3


# ---- aspects


SEEDS = {
    "rooms": {"room": 0.5, "bed": 0.4, "clean": 0.1},
    "cleanliness": {"clean": 0.55},
    "food": {"breakfast": 1.0},
    "service": {"staff": 1.0},
}


def test_the_aspect_of_a_sentence():
    assert aspects.aspect_of("A clean room, a clean bed", SEEDS) == "rooms"
    assert aspects.aspect_of("Clean, clean, clean", SEEDS) == "cleanliness"
    assert aspects.aspect_of("Clean, clean, clean room", SEEDS) == "rooms"  # each word once
    assert aspects.aspect_of("We arrived late", SEEDS) is None
    assert aspects.aspect_of("anything", {}) is None


def test_summaries_aspect_by_aspect():
    one = of(REVIEWS)
    references = {
        "food": ["good breakfast", "breakfast was good"],
        "rooms": ["clean room"],
        "cleanliness": ["all was clean"],
    }
    words = aspects.budgets(
        {
            "general": {"x": ["too many words"]},
            "food": {"x": ["one two", "one two three four five"]},
        }
    )
    assert words == {"food": 4}  # 3.5, to the even number
    published = {"food": {"qt_stefanos": "cold breakfast"}}
    scores = aspects.look_at(
        hotel_of(one, ["x"]), references, published, SEEDS, dict.fromkeys(references, 4), SETTING
    )
    rows = {(row["aspect"], row["method"]): row for row in aspects.over_all([scores])}
    # of the sentences about food both have four words or fewer: "the breakfast was good" fits alone
    assert rows["food", "oracle"]["mean"] == [
        round(v, 2) for v in scored("the breakfast was good", references["food"])["mean"]
    ]
    assert rows["food", "QT"]["mean"] == [
        round(v, 2) for v in scored("cold breakfast", references["food"])["mean"]
    ]
    assert ("rooms", "QT") not in rows
    assert rows["cleanliness", OURS]["mean"][0] > 0


# ---- what is followed


def test_the_stars_of_summaries_in_three_orders():
    one = of([*REVIEWS, ["we came by bus"]], [5.0, 1.0, 2.0, 4.0, 3.0, None])
    marks = {"temporal": [5, 1, 4, 3], "rising": [1, 3, 4, 5], "falling": [5, 4, 3, 1]}
    for (
        order,
        stars,
    ) in marks.items():  # a review without sentences and one without stars are left out
        found = tracking.ratings(one, order, SETTING)
        course = found[OURS]
        assert course.at == [1, 2, 3, 4]
        assert course.all.tolist() == pytest.approx(
            [np.mean(stars[:count]) for count in range(1, 5)]
        )
        assert course.summary[0] == stars[0]
        assert set(found) == {OURS, "coversumm-random", "coversumm-decay", "random"}
    by_review = np.array([5.0, 1.0, np.nan, 4.0, 3.0])
    ranked = step_by_step(METHODS["exact"], SETTING, of(REVIEWS), [9]).after[9]
    last = tracking.ratings(one, "temporal", SETTING)[OURS].summary[-1]
    assert last == pytest.approx(np.mean(by_review[of(REVIEWS).review_of[ranked]]))


def test_an_error_begins_where_there_are_enough():
    course = tracking.Course(
        list(range(1, 23)), np.zeros(22), np.array([9.0] * 19 + [1.0, 2.0, 6.0])
    )
    assert course.error == 3.0
    assert tracking.Course([1, 2], np.zeros(2), np.array([1.0, 3.0])).error == 2.0
    assert course.thinned()[-1] == [22, 0.0, 6.0]
    assert (
        len(tracking.Course(list(range(1000)), np.zeros(1000), np.zeros(1000)).thinned())
        == tracking.POINTS
    )


def test_polarity():
    assert (
        tracking.polarity_of("A wonderful, lovely place!")
        > 0.5
        > -0.3
        > tracking.polarity_of("It was dirty and horrible.")
    )
    one = of([["a wonderful place"], [], ["a horrible smell", "we came"]])
    course = tracking.polarity(one, SETTING)[OURS]
    assert course.at == [1, 3]
    assert course.all == pytest.approx(course.summary)  # all sentences are in the summary
    assert course.all[0] == pytest.approx(tracking.polarity_of("a wonderful place"))
    assert tracking.polarity_of_texts(["Lovely. Horrible."]) == round(
        (tracking.polarity_of("Lovely.") + tracking.polarity_of("Horrible.")) / 2, 3
    )


def test_aspects_come_one_by_one():
    one = of(
        [
            ["staff", "room", "breakfast"],
            ["a room", "kind staff", "we came", "big breakfast", "the bed"],
        ]
    )
    course = tracking.aspects(one, SEEDS, SETTING)[OURS]
    assert course.at == [1, 2, 3, 4, 5, 6, 7]
    assert course.all.tolist() == [1, 1, 2, 2, 3, 3, 3]
    assert (course.summary <= course.all).all()
    assert course.summary[:3].tolist() == [1, 1, 2]


# ---- what a reader gets


def test_the_short_view_passes_over_twins():
    one = of([["a b", "a b c"], ["a b", "d e", "a b"], ["c d e"]])
    both = views.look_at(one, SETTING)
    assert both[OURS].twins == 1.0
    assert both[SHORT].twins == 0.0
    assert both[SHORT].repeats < both[OURS].repeats
    assert both[SHORT].stands_for > both[OURS].stands_for
    lines = views.row("x", [both, both])
    assert [line["view"] for line in lines] == [OURS, SHORT]
    assert lines[1]["stands_for"] == pytest.approx(both[SHORT].stands_for, abs=1e-4)


# ---- what is out of date


def test_what_is_published_by_m():
    sets = [[1], [1, 2], [1, 2, 3], [1, 2, 3], [4, 2, 3], [4, 5, 3], [], [7]]
    assert staleness.shown(sets, 1) == [0, 1, 2, 2, 4, 5, 6, 7]
    assert staleness.shown(sets, 2) == [0, 0, 2, 2, 2, 5, 6, 7]
    assert staleness.shown(sets, 20) == [0, 0, 0, 0, 0, 0, 6, 7]
    assert staleness.shown([[], [1]], 1) == [-1, 1]
    assert staleness.changes(staleness.shown(sets, 2)) == 5
    assert staleness.out_of_date(sets, staleness.shown(sets, 2)) == pytest.approx(
        (1 / 2 + 1 / 3) / 8
    )
    assert staleness.out_of_date([[], [1]], [-1, -1]) == 0.5


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4, unique=True), max_size=20), st.integers(1, 5)
)
def test_the_rule_of_m(sets, m):
    """After every event what is published differs by fewer than m, and is empty only if the set is;
    m = 1 is never old.
    """
    places = staleness.shown(sets, m)
    for now, place in zip(sets, places, strict=True):
        last = set(sets[place]) if place >= 0 else set()
        assert max(len(last - set(now)), len(set(now) - last)) < m
        assert bool(last) == bool(now)
    for before, after in pairwise([-1, *places]):
        if after != before:
            old, new = (set(sets[place]) if place >= 0 else set() for place in (before, after))
            assert max(len(old - new), len(new - old)) >= m or not old or not new


def test_every_m_of_an_entity():
    one = of(REVIEWS)
    sent = staleness.look_at(one, SETTING, hotel_of(one, ["the room was clean"]))
    assert [each.least for each in sent] == list(staleness.LEAST)
    assert sent[0].out_of_date == 0.0
    assert [each.changes for each in sent] == sorted((each.changes for each in sent), reverse=True)
    rows = staleness.row("x", [sent, sent])
    assert rows[0]["r1_lost"] == 0.0
    assert rows[0]["changes"] == sent[0].changes
    assert "r1_lost" not in staleness.row("x", [staleness.look_at(one, SETTING)])[0]


# ---- files


def packed(path, rows):
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


@pytest.fixture
def folder(tmp_path):
    """Two hotels, a product and what they are held against, of a few sentences."""
    folder = tmp_path / "data"
    folder.mkdir()
    hotels_ = [
        {
            "entity_id": f"h{hotel}",
            "rating": 4,
            "order_key": 10 - at,
            "sentences": [*sentences, " "],
        }
        for hotel in range(2)
        for at, sentences in enumerate(REVIEWS * 5)
    ]
    packed(folder / data.HOTELS.name, hotels_)
    gold = [
        {"entity_id": f"h{hotel}", "split": split, "aspect": aspect, "text": text}
        for hotel in range(2)
        for split in ("test", "dev")
        for aspect in ("general", *tables.ONE_ASPECT)
        for text in ("the room was clean and the staff kind", "good breakfast, clean pool")
    ]
    packed(folder / data.REFERENCES.name, gold)
    systems = {one.system for one in calibration.KNOWN} | set(study.OTHERS)
    outputs = [
        {"entity_id": f"h{hotel}", "system": system, "aspect": aspect, "text": "the room was clean"}
        for hotel in range(2)
        for system in systems
        for aspect in ("general", *tables.ONE_ASPECT)
    ]
    packed(folder / data.PUBLISHED.name, outputs)
    seeds = {
        aspect: [["0.5", word]]
        for aspect, word in zip(
            tables.ONE_ASPECT, ("pool", "clean", "breakfast", "bus", "room", "staff"), strict=True
        )
    }
    (folder / data.SEEDS.name).write_text(json.dumps(seeds))
    others = [
        {"entity_id": f"lara:{n % 2}", "text": f"{text.capitalize()} here."}
        for n, text in enumerate(one for of_ in REVIEWS for one in of_)
    ]
    packed(folder / data.OTHER_HOTELS.name, [*others, {"entity_id": "amz:x", "text": "Good."}])
    product = [
        {
            "entity_id": "p",
            "rating": 1 + at % 5,
            "created_at": f"2020-01-{28 - at:02}T00:00:00Z",
            "text": " ".join(f"{one.capitalize()}." for one in sentences),
        }
        for at, sentences in enumerate(REVIEWS * 5)
    ]
    packed(
        folder / data.PRODUCTS.name,
        [*product, product[0] | {"created_at": None}, product[0] | {"entity_id": "q"}],
    )
    return folder


def test_files_are_read(folder):
    first, second = data.hotels(folder, embed)
    assert (first.id, second.id, len(first.ratings)) == ("h0", "h1", 25)
    assert first.sentences[:2] == REVIEWS[-1]  # by order_key, and nothing blank
    (product,) = data.products(folder, 2, embed)
    assert product.id == "p"
    assert len(product.ratings) == 25  # without the one that has no date
    assert product.ratings[:2] == [5.0, 4.0]  # by date
    assert data.references(folder)["food"]["h1"][1] == "good breakfast, clean pool"
    assert data.published(folder)["general"]["qt_stefanos"]["h0"] == "the room was clean"
    assert data.seeds(folder)["food"] == {"breakfast": 0.5}


def test_what_is_missing_is_named_with_where_to_get_it(folder, capsys):
    (folder / data.HOTELS.name).unlink()
    assert main(["--data", str(folder)]) == 2
    errors = capsys.readouterr().err
    assert data.HOTELS.name in errors
    assert data.HOTELS.where in errors
    assert "DATA=FOLDER" in errors
    assert data.PRODUCTS.name not in errors


def test_a_bad_line_is_named(folder, tmp_path):
    packed(
        folder / data.PRODUCTS.name,
        [{"entity_id": "p", "text": "x"}, {"entity_id": "p", "text": 7}],
    )
    with pytest.raises(DataError, match=r"amazon_datafiniti.jsonl.gz, line 2: .*\$\.text"):
        data.products(folder, 1, embed)
    (folder / data.HOTELS.name).write_bytes(b"not gzip")
    with pytest.raises(DataError, match="cannot be read"):
        data.hotels(folder, embed)
    (folder / data.SEEDS.name).write_text('{"food": [["much", "egg"]]}')
    with pytest.raises(DataError, match=data.SEEDS.name):
        data.seeds(folder)


def test_a_hotel_without_references_is_named():
    one = of(REVIEWS)
    data.check_references([one], {"general": {"e": ["x"]}})
    with pytest.raises(DataError, match="'food' for e"):
        data.check_references([one], {"general": {"e": ["x"]}, "food": {}})


# ---- all of it


@pytest.fixture
def small_study(folder, tmp_path, monkeypatch):
    """The study of the small folder in this process, calibrated by what its texts score, with
    vectors of hashed words.
    """
    monkeypatch.setattr(study, "PRODUCT_REVIEWS", 2)
    monkeypatch.setattr(
        study, "tuned", lambda: (SETTING, {"k": 3, "alpha": 0.1, "b": 1.0, "found_on": "nothing"})
    )
    texts, references = data.published(folder), data.references(folder)
    scores = {
        system: calibration.system_score(of_, references["general"])
        for system, of_ in texts["general"].items()
    }
    known_ = [one._replace(**scores[one.system]) for one in calibration.KNOWN]
    monkeypatch.setattr(
        study, "calibrate", lambda texts, references: calibrate(texts, references, known_)
    )
    for name in ("hotels", "products"):
        made = getattr(data, name)
        monkeypatch.setattr(data, name, lambda *given, made=made: made(*given, embed=embed))
    monkeypatch.setattr(data, "stays", lambda: [of(REVIEWS)])
    screen = Screen(Console(record=True, width=200))
    results = tmp_path / "results"
    one = study.Study(folder, screen, results)
    monkeypatch.setattr(one, "_over", lambda name, do, tasks: [do(task) for task in tasks])
    return one


def test_the_whole_study_on_little_data(small_study):
    found = small_study.run()
    recorded = json.loads((small_study.results / "quality.json").read_text())
    assert {
        "machine",
        "date",
        "command",
        "calibration",
        "on_the_way",
        "at_the_end",
        "aspects",
        "tracking",
        "staleness",
    } <= set(recorded)
    assert [one["sentences"] for one in recorded["sets"]] == [90, 45, 9]
    for table in tables.TABLES.values():
        assert OURS in table(recorded) or "SPACE" in table(recorded) or "SemAE" in table(recorded)
    assert sorted(file.name for file in small_study.results.glob("*.png")) == [
        f"quality-{name}.png" for name in ("followed", "price", "ratings", "rouge", "staleness")
    ]
    assert found["budgets"] == dict.fromkeys(tables.ONE_ASPECT, 6)


def test_nothing_is_measured_with_scores_that_are_wrong(small_study, monkeypatch):
    monkeypatch.setattr(study, "calibrate", calibrate)  # by what real texts score
    with pytest.raises(NotCalibrated, match="SemAE"):
        small_study.run()
    assert not small_study.results.exists()


def test_without_matplotlib_nothing_is_drawn(tmp_path):
    figures = Figures(tmp_path, "quality")
    figures.able = False
    figures.draw({})
    assert list(tmp_path.iterdir()) == []


def test_entities_can_go_to_another_process():
    import pickle

    one = of(REVIEWS)
    again = pickle.loads(pickle.dumps(one))
    assert isinstance(again, Entity)
    assert (again.vectors == one.vectors).all()
