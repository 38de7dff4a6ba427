"""Reviews to summaries from Python: the bodies of the worker, clear refusals, and nothing that
surprises a notebook.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import chain

import msgspec
import numpy as np
import pytest

from tests.cli.events import delete, lines, sample
from tests.harness.drive import FakeEngine, config
from tests.harness.model import Model
from worker.errors import SetupError
from worker.events import Record, SummaryChanged, read_line
from worker.processing.entity_view import UnknownLanguage
from worker.summarizer import ReviewError, Skipped, Summarizer

TOPIC = "marketplace.reviews.v1"


def modelled(events, **changes):
    """The bodies of the contract's model, which is straight-line code."""
    settings = config(**{"epoch": 1, "input_topic": TOPIC, "limits": {"model": None}, **changes})
    records = [Record(TOPIC, 0, i, -1, *read_line(line)) for i, line in enumerate(lines(events))]
    messages, _ = Model(settings, FakeEngine.vector).run(records)
    return [
        msgspec.json.decode(body, type=SummaryChanged)
        for _, body, _ in messages
        if body is not None
    ]


def review(number, text="good", **fields):
    return {"entity_id": "e", "review_id": f"r{number}", "text": text, **fields}


@pytest.fixture
def stays():
    return Summarizer(k=3, embedder=FakeEngine())


@pytest.mark.parametrize(
    ("shown", "modelled_as"),
    [({}, {}), ({"distinct": True}, {"distinct": True}), ({"weigh": "texts"}, {"by_text": True})],
)
@pytest.mark.parametrize("size", [7, 1000])
def test_changes_are_those_of_the_worker(shown, modelled_as, size):
    events = sample(250)
    gone = {"type": "entity.deleted", "entity_id": events[0]["entity_id"]}
    events_and_edits = [*events[:200], *map(delete, events[5:60:3]), gone, *events[200:]]
    summarizer = Summarizer(k=4, **shown, embedder="none", dimension=3)
    calls = (
        events_and_edits[start : start + size] for start in range(0, len(events_and_edits), size)
    )
    changes = list(chain.from_iterable(summarizer.add(call) for call in calls))
    assert changes == modelled(events_and_edits, k=4, **modelled_as)
    assert len(changes) > 10
    for entity_id in summarizer.entities():
        (*_, last) = [change for change in changes if change.entity_id == entity_id]
        view = summarizer.summary(entity_id)
        assert {s.sentence_id for s in view.sentences} == {s.sentence_id for s in last.sentences}


def test_texts_are_embedded_by_an_engine_of_ones_own(stays):
    reviews = [review(i, f"{'x' * (i % 5)}. And {i}.") for i in range(30)]
    changes = stays.add(reviews)
    assert changes == modelled(reviews, k=3, limits={"model": "fake"})
    assert changes[-1].embedding_model == "fake"


def test_a_review_with_the_same_ids_replaces(stays):
    stays.add([review(1, "old")])
    (change,) = stays.add([review(1, "new one")])
    assert (change.added, change.removed) == (["r1#0"], ["r1#0"])
    assert [s.text for s in stays.summary("e").sentences] == ["new one"]
    assert stays.add([]) == []


def test_removed_and_unknown(stays):
    stays.add([review(1), review(2, "fine")])
    (change,) = stays.remove("e", "r1")
    assert change.removed == ["r1#0"]
    assert (stays.remove("e", "r1"), stays.remove("e", "r9"), stays.remove("f", "r1")) == (
        [],
        [],
        [],
    )
    assert (stays.entities(), stays.summary("f").sentences) == (
        ["e", "f"],
        (),
    )  # a deletion is remembered
    with pytest.raises(KeyError, match="nothing is known of 'g'"):
        stays.summary("g")
    stays.remove("e", "r2")
    assert stays.summary("e").sentences == ()
    stays.add([{"type": "entity.deleted", "entity_id": "e"}])
    assert stays.entities() == ["f"]


def test_what_data_frames_hold_is_taken(stays):
    """NumPy's numbers, arrays as embeddings, NaN for what is missing, moments of time."""
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    stays.add([review(1, rating=np.float32(4.5), language=float("nan"), occurred_at=moment)])
    stays.add(
        [
            review(
                2, rating=float("nan"), sentences=[{"text": "b", "embedding": np.array([1, 2, 3])}]
            )
        ]
    )
    ratings = {s.review_id: s.rating for s in stays.summary("e").sentences}
    assert ratings == {"r1": 4.5, "r2": None}


def test_numbers_are_ids_and_what_has_no_sure_meaning_is_left_out_with_a_warning(stays):
    stays.add([{"entity_id": 7, "review_id": np.int64(81), "text": "good", "rating": "4.5"}])
    (sentence,) = stays.summary("7").sentences
    assert (sentence.sentence_id, sentence.rating) == ("81#0", 4.5)
    given = [review(1), review(2, rating="many"), review(3, occurred_at="03/04/2019")]
    with pytest.warns(
        UserWarning, match="review 1: rating 'many' has no sure meaning .* one of 2 such values"
    ) as said:
        stays.add(given)
    assert (len(said), said[0].filename) == (1, __file__)
    assert stays.summary("e").review_count == 3


BAD = [
    ({"entity_id": "e", "review_id": "r"}, "review 1: bad_field: text: missing"),
    ({"entity_id": "e", "text": "t"}, "review 1: bad_field: .*review_id"),
    ({"entity_id": "", "review_id": "r", "text": "t"}, "review 1: .*entity_id"),
    (review(1, sentences=[{"text": "b", "embedding": [1.0]}]), "review 1: wrong_dimension"),
    (review(1, entity_id=[7]), "review 1: bad_field: .*entity_id"),
    (
        review(1, rating=object()),
        "review 1: bad_json: a value of type object cannot be written as JSON",
    ),
]


@pytest.mark.parametrize(("bad", "says"), BAD)
def test_a_review_that_cannot_be_used_is_named_and_nothing_is_taken_in(stays, bad, says):
    with pytest.raises(ReviewError, match=says):
        stays.add([review(7), bad, review(8)])
    assert (stays.entities(), stays.skipped) == ([], [])
    stays.add([review(7)])
    assert stays.summary("e").review_count == 1


def test_bad_ones_are_counted_and_can_be_left_out(stays):
    stays.add([review(9)])
    given = [
        review(1),
        {"entity_id": "e"},
        review(2),
        review(3, entity_id=[5]),
        review(4, rating=object()),
    ]
    with pytest.raises(
        ReviewError,
        match=r"^review 1: .* \(3 of 5 reviews cannot be used; skip_bad=True leaves them out\)$",
    ):
        stays.add(given)
    stays.add(given, skip_bad=True)
    assert stays.summary("e").review_count == 3
    assert [(skipped.position, skipped.reason) for skipped in stays.skipped] == [
        (1, "bad_field"),
        (3, "bad_field"),
        (4, "bad_json"),
    ]
    assert isinstance(stays.skipped[0], Skipped)


def test_a_sentence_without_a_vector_is_told_after_all_others_are_in(stays):
    with pytest.raises(ReviewError, match=r"review 1: bad_vector: .*\(1 of 3 reviews"):
        stays.add([review(1), review(2, "nan"), review(3)])
    assert stays.summary("e").review_count == 2


def test_an_interrupted_call_can_be_followed_by_others(monkeypatch):
    """A kernel is interrupted in the middle of embedding: what is committed is right,
    and goes on.
    """
    engine = FakeEngine()
    summarizer = Summarizer(k=3, embedder=engine)
    embed, calls = engine.embed, []

    def interrupted(texts):
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return embed(texts)

    monkeypatch.setattr(engine, "embed", interrupted)
    reviews = [review(i, f"{'y' * (i % 7)} {i}") for i in range(500)]
    with pytest.raises(KeyboardInterrupt):
        summarizer.add(reviews)
    assert summarizer.summary("e").review_count == 200
    summarizer.add(reviews)
    whole = Summarizer(k=3, embedder=FakeEngine())
    whole.add(reviews)
    assert summarizer.summary("e").sentences == whole.summary("e").sentences
    assert summarizer.summary("e").review_count == 500


def test_arguments_out_of_range():
    for arguments in (
        {"k": 0},
        {"k": 3, "embedder": "none", "dimension": 0},
        {"k": 3, "dimension": 384},
    ):
        with pytest.raises(ValueError, match="at least 1"):
            Summarizer(**{"embedder": FakeEngine(), **arguments})
    with pytest.raises(ValueError, match="weigh is reviews or texts, not 'words'"):
        Summarizer(k=3, weigh="words", embedder=FakeEngine())


def test_the_environment_is_not_asked(monkeypatch):
    monkeypatch.setenv("COVERSUMM_K", "nonsense")
    monkeypatch.setenv("COVERSUMM_DISTINCT", "true")
    summarizer = Summarizer(k=2, embedder=FakeEngine())
    summarizer.add([review(1), review(2)])
    assert len(summarizer.summary("e").sentences) == 2


QUIET = """
import json, logging, os, sys, threading
before = dict(os.environ), logging.root.level, list(logging.root.handlers), threading.active_count()
import worker.coversumm, worker.summarizer
after = dict(os.environ), logging.root.level, list(logging.root.handlers), threading.active_count()
heavy = {"aiokafka", "click", "confluent_kafka", "faust", "huggingface_hub"}
heavy |= {"onnx", "onnxruntime", "rich", "rocksdict"}
print(json.dumps([before == after, sorted(heavy & set(sys.modules))]))
"""


def test_importing_changes_nothing_and_is_light():
    """No thread limits in the environment, no log handlers, nothing of Kafka, no model."""
    environment = {
        name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    command = [sys.executable, "-c", QUIET]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (json.loads(done.stdout), done.stderr) == ([True, []], "")


@pytest.mark.parametrize(
    ("reviews", "says"),
    [(review(1), "review 0 is 'entity_id'"), ([review(1), "r2"], "review 1 is 'r2'")],
)
def test_what_is_no_list_of_reviews_is_refused(stays, reviews, says):
    with pytest.raises(TypeError, match=f"a list of mappings is wanted, and {says}"):
        stays.add(reviews)
    assert stays.entities() == []


def test_a_short_view(stays):
    stays.add([review(number, "x" * number + ". Same.") for number in range(1, 20)])
    view = stays.short_view("e", threshold=0.99)
    assert view.review_count == 19
    assert sum(sentence.stands_for for sentence in view.sentences) <= view.sentence_count
    assert view.sentences[0].sentence_id == stays.summary("e").sentences[0].sentence_id
    assert len(stays.short_view("e", sentences=1).sentences) == 1
    assert (
        sum(
            len(sentence.text.split())
            for sentence in stays.short_view("e", words=2, threshold=0.99).sentences
        )
        == 2
    )
    with pytest.raises(KeyError, match="nobody"):
        stays.short_view("nobody")
    with pytest.raises(ValueError, match="sentences is a number"):
        stays.short_view("e", sentences=0)


def test_facets(tmp_path):
    path = tmp_path / "facets.toml"
    path.write_text('[[facet]]\nname = "critics"\nrating = { max = 2 }\nk = 1\n')
    stays = Summarizer(k=3, embedder=FakeEngine(), facets=path)
    assert stays.add([review(1, "Nice.", rating=5)])
    assert stays.facet_changes == []
    stays.add([review(2, "Bad. Awful place.", rating=1)])
    (change,) = stays.facet_changes
    assert change.changed == ["critics"]
    view = stays.facets("e")
    assert list(view.facets) == change.facets
    assert (view.facets[0].sentence_count, view.facets[0].ratings.mean) == (2, 1.0)
    (first, *_) = stays.overview("e", sentences=2).sentences
    assert (first.facet, first.text) == ("critics", view.facets[0].sentences[0].text)
    stays.remove("e", "r2")
    assert [change.changed for change in stays.facet_changes] == [["critics"]]
    for ask in (stays.facets, stays.overview):
        with pytest.raises(KeyError, match="nobody"):
            ask("nobody")
    with pytest.raises(UnknownLanguage, match="language 'fr': no facet is of one language"):
        stays.overview("e", language="fr")
    with pytest.raises(SetupError, match="COVERSUMM_FACETS: no preset 'huts'"):
        Summarizer(k=3, embedder=FakeEngine(), facets="preset:huts")
    plain = Summarizer(k=3, embedder=FakeEngine())
    plain.add([review(1)])
    with pytest.raises(SetupError, match="COVERSUMM_FACETS"):
        plain.facets("e")


def test_facets_of_a_language(tmp_path):
    path = tmp_path / "facets.toml"
    path.write_text('languages = ["en", "fr"]\n[[facet]]\nname = "new"\nnewest = 9\n')
    stays = Summarizer(k=3, embedder=FakeEngine(), facets=path)
    words = "Nice. Quiet place. So clean. Friendly. We slept well."
    stays.add([review(1, words, language="en"), review(2, "Bien. Calme.", language="fr")])
    assert [facet.label for facet in stays.facets("e", language="fr").facets] == [
        "everything (fr)",
        "new (fr)",
    ]
    overview = stays.overview("e")
    assert (overview.language, overview.sentences[0].facet) == ("en", "new")
    assert stays.overview("e", language="fr").sentences == ()  # two sentences are too few
