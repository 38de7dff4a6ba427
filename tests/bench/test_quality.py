"""What the study of quality counts: scores, silver summaries, rankings, the walk, what is followed
and what is out of date.
"""

import gzip
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docs.build import quality as tables
from tests.bench.paper.methods import METHODS, Setting
from tests.bench.paper.screen import Screen
from tests.bench.quality import (
    calibration,
    data,
    study,
)
from tests.bench.quality.__main__ import main
from tests.bench.quality.calibration import Known, NotCalibrated, calibrate
from tests.bench.quality.contenders import OURS, step_by_step
from tests.bench.quality.entity import Review, entity
from tests.bench.quality.ranking import by_sumy, centroid_opt, lex_rank, lsa, sum_basic, text_rank
from tests.bench.quality.rouge import Rouge, jackknife, mean, rouge
from tests.bench.quality.silver import Silver
from tests.bench.quality.words import words_of
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


# ---- the walk and silver summaries


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


def test_exact_contenders_are_ours_and_ours_is_nearest():
    one = of(REVIEWS)
    marks = list(range(1, 10))
    ours = step_by_step(METHODS["exact"], SETTING, one, marks).after
    assert step_by_step(METHODS["brute-force"], SETTING, one, marks).after == ours
    x = one.vectors.astype(float)
    for mark in marks:
        distances = np.linalg.norm(x[:mark] - x[:mark].mean(axis=0), axis=1)
        assert sorted(distances[ours[mark]]) == pytest.approx(sorted(distances)[:3])


# ---- aspects


SEEDS = {
    "rooms": {"room": 0.5, "bed": 0.4, "clean": 0.1},
    "cleanliness": {"clean": 0.55},
    "food": {"breakfast": 1.0},
    "service": {"staff": 1.0},
}


# ---- what is followed


# ---- what a reader gets


# ---- what is out of date


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


def test_what_is_missing_is_named_with_where_to_get_it(folder, capsys):
    (folder / data.HOTELS.name).unlink()
    assert main(["--data", str(folder)]) == 2
    errors = capsys.readouterr().err
    assert data.HOTELS.name in errors
    assert data.HOTELS.where in errors
    assert "DATA=FOLDER" in errors
    assert data.PRODUCTS.name not in errors


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
