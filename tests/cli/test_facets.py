"""`facets suggest`: from files to a file of facets that `summarize` takes; `facets try`: what
another file changes.
"""

import json
import re
from typing import ClassVar

import numpy as np
import pytest

from tests.cli.events import delete, lines, sample
from worker.events import Record, decode, read_line
from worker.facets.definitions import read_definitions
from worker.operations import facets_suggest
from worker.processing import config
from worker.settings import Settings

REVIEWS = 400


class WordEngine:
    """A text's vector has a place for each of its words, so sentences with the same words are
    near each other.
    """

    model, dimension = "words", 384
    embedded: ClassVar[list[str]] = []

    def embed(self, texts):
        self.embedded.extend(texts)
        found = np.full((len(texts), self.dimension), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                found[row, sum(map(ord, word)) % self.dimension] += 1
        return found


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """The engine of all commands, unless they ask for none."""
    real = config.configured_engine
    for module in ("facets_suggest", "facets_try", "summarize_run"):
        monkeypatch.setattr(
            f"worker.operations.{module}.configured_engine",
            lambda settings: real(settings) if settings.embedder == "none" else WordEngine(),
        )
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "onnx")
    monkeypatch.delenv("COVERSUMM_DIMENSION")


def bare(count=REVIEWS):
    """Bundled reviews without vectors."""
    events = sample(count)
    return [
        event | {"sentences": [sentence["text"] for sentence in event["sentences"]]}
        for event in events
    ]


@pytest.fixture(scope="module")
def reviews():
    return lines(bare())


def test_a_file_that_loads_and_divides_the_same_reviews(run, write, tmp_path, reviews):
    file, target = write("reviews.jsonl", reviews), tmp_path / "facets.toml"
    ended = run("facets", "suggest", file, "--output", target)
    assert (ended.code, ended.out) == (0, "")
    assert re.fullmatch(rf"{REVIEWS} lines, [0-9.]+ s\n", ended.err)
    facets = read_definitions(str(target)).facets
    assert 2 <= len(facets) <= 12
    found = {" ".join(text.split()) for review in bare() for text in review["sentences"]}
    assert {phrase for facet in facets for phrase in facet.phrases} <= found
    head = target.read_text().splitlines()
    assert head[0] == f"# Facets suggested from {REVIEWS} reviews of 1 entity."
    assert "For a person to edit" in head[1]
    counts = re.findall(r"^# ([\d,]+) reviews mention it\.$", target.read_text(), re.M)
    ended = run("summarize", file, "--facets", target, "--view", "facets")
    assert ended.code == 0
    (view,) = map(json.loads, ended.out.splitlines())
    assert {facet["name"] for facet in view["facets"]} == {facet.name for facet in facets}
    mentions = {facet["name"]: facet["mentions"]["review_count"] for facet in view["facets"]}
    assert [f"{mentions[facet.name]:,}" for facet in facets] == counts


def test_columns_of_a_table(run, write):
    rows = [b"shop,id,body", *(b'S,%d,"The kettle was %d times red."' % (n, n) for n in range(9))]
    ended = run(
        "facets", "suggest", write("t.csv", rows), "--fields",
        "entity_id=shop,review_id=id,text=body",
    )  # fmt: skip
    assert ended.code == 0
    assert "9 reviews of 1 entity" in ended.out
    assert 'name = "kettle"' in ended.out


def test_only_live_sentences_count(run, write):
    events = [event | {"rating": 2.0} for event in bare(60)]
    edited = {**events[0], "sentences": ["The edit alone is live here."], "rating": 4.0}
    taken = {
        "type": "sentences.deleted",
        "entity_id": events[1]["entity_id"],
        "sentence_ids": [f"{events[1]['review_id']}#0"],
    }
    gone = {**events[2], "entity_id": "gone"}
    ended = {"type": "entity.deleted", "entity_id": "gone"}
    given = [*events, edited, taken, *map(delete, events[40:]), gone, ended]
    live = facets_suggest.LiveReviews(config.event_limits(Settings()))
    records = [Record("t", 0, n, -1, *read_line(line)) for n, line in enumerate(lines(given))]
    for event in decode(records, live.limits):
        assert live.apply(event) is None
    kept = [edited, {**events[1], "sentences": events[1]["sentences"][1:]}, *events[2:40]]
    assert live.reviews() == [
        (event["entity_id"], event["rating"], event["sentences"]) for event in kept
    ]


def test_no_subject(run, write, tmp_path):
    target = tmp_path / "facets.toml"
    ended = run("facets", "suggest", write("few.jsonl", lines(bare(3))), "-o", target)
    assert ended.code == 2
    assert ended.err.endswith(
        "coversumm-worker: error: found no subject in 3 reviews: at least 5 English reviews must "
        "mention it, of two entities if there are several. Give more reviews, or copy a preset\n"
    )
    assert not target.exists()


def test_a_file_with_edits_is_kept(run, write, tmp_path, reviews):
    file, target = write("reviews.jsonl", reviews), tmp_path / "facets.toml"
    target.write_text("mine")
    ended = run("facets", "suggest", file, "-o", target)
    assert ended.code == 2
    assert f"{target} exists, perhaps with your edits: --force replaces it" in ended.err
    assert target.read_text() == "mine"
    assert run("facets", "suggest", file, "-o", target, "--force").code == 0
    assert read_definitions(str(target)).facets


def test_an_input_file_is_no_output(run, write, reviews):
    file = write("reviews.jsonl", reviews)
    ended = run("facets", "suggest", file, "-o", file, "--force")
    assert ended.code == 2
    assert "is an input file" in ended.err
    assert file.read_bytes().splitlines() == reviews


def test_no_embedder(run, write, reviews):
    ended = run("facets", "suggest", write("reviews.jsonl", reviews), "--embedder", "none")
    assert ended.code == 2
    assert "which need an embedder, and COVERSUMM_EMBEDDER is none: pass --embedder" in ended.err


def test_bad_lines_are_named_and_the_rest_is_used(run, write, reviews):
    file = write("reviews.jsonl", [b"{", *reviews, b'{"entity_id": "e"}'])
    ended = run("facets", "suggest", file)
    assert ended.code == 1
    assert "line 1: " in ended.err
    assert f"line {REVIEWS + 2}: " in ended.err
    assert f"2 of {REVIEWS + 2} lines could not be used" in ended.err
    assert "[[facet]]" in ended.out


BEFORE = """
[[facet]]
name = "kitchen"
phrases = ["The kitchen was small."]
words = ["kitchen", "kettle"]

[[facet]]
name = "gone"
phrases = ["The garden was green."]
"""
AFTER = (
    BEFORE.replace("gone", "garden").replace('"The kitchen was small."', '"The kettle was red."')
    + """
[[facet]]
name = "critics"
rating = { max = 2 }
"""
)
TEXTS = (
    ("r1", 5, "The kitchen was small. The garden was green."),
    ("r2", 1, "The kettle was red. We like owls and bears."),
    ("r3", 4, "The kitchen was small and blue."),
)
STAY = [
    {"entity_id": "S", "review_id": name, "rating": rating, "text": text}
    for name, rating, text in TEXTS
]
OTHER = [{"entity_id": "O", "review_id": "r9", "text": "The kitchen was small."}]


@pytest.fixture
def trial(run, write, tmp_path):
    """Runs `facets try` on two files of facets and some reviews."""
    for name, text in (("before.toml", BEFORE), ("after.toml", AFTER)):
        (tmp_path / name).write_text(text)
    file = write("stay.jsonl", lines([*STAY, *OTHER]))

    def tried(*arguments, before=True, files=(file,)):
        named = ("--before", tmp_path / "before.toml") if before else ()
        return run("facets", "try", tmp_path / "after.toml", *files, *named, *arguments)

    return tried


def rows(ended):
    """The counts by facet, and the texts that moved by the facets they left and came to."""
    found = [json.loads(line) for line in ended.out.splitlines()]
    counts = {row["facet"]: (row["mentions"], row["sentences"]) for row in found if "facet" in row}
    moved = {
        (*row["from"], ">", *row["to"]): set(row["sentences"]) for row in found if "from" in row
    }
    return counts, moved


def test_a_trial_counts_and_names_what_moved(trial, run, write, tmp_path):
    WordEngine.embedded.clear()
    ended = trial()
    assert (ended.code, ended.err) == (0, "S: 3 reviews\n")
    counts, moved = rows(ended)
    assert list(counts) == ["kitchen", "garden", "critics", "gone"]
    assert counts["kitchen"][0] == [3, 3]
    assert counts["critics"] == ([None, None], [None, 2])
    assert counts["gone"] == ([None, None], [1, None])
    assert moved["gone", ">", "garden"] == {"r1#1"}
    assert moved[">", "critics"] == {"r2#0", "r2#1"}
    for text in ("We like owls and bears.", "The kitchen was small and blue."):
        assert WordEngine.embedded.count(text) == 1, "it is embedded for each set"
    file = write("only.jsonl", lines(STAY))
    for at, name in enumerate(("before.toml", "after.toml")):
        view = run("summarize", file, "--facets", tmp_path / name, "--view", "facets")
        for facet in json.loads(view.out)["facets"]:
            mentions, sentences = counts[facet["name"]]
            assert sentences[at] == facet["sentence_count"]
            assert mentions[at] == facet.get("mentions", {"review_count": None})["review_count"]


def test_a_trial_of_facets_where_the_worker_has_none(trial, monkeypatch, tmp_path):
    monkeypatch.delenv("COVERSUMM_FACETS", raising=False)
    counts, moved = rows(trial("--entity", "O", before=False))
    assert counts["kitchen"] == ([None, 1], [None, 1])
    assert moved == {(">", "kitchen"): {"r9#0"}}
    monkeypatch.setenv("COVERSUMM_FACETS", str(tmp_path / "before.toml"))
    counts, moved = rows(trial("--entity", "O", before=False))
    assert (counts["kitchen"], moved) == (([1, 1], [1, 1]), {})


def test_a_trial_names_what_is_wrong(trial, write, tmp_path):
    for arguments, message in (
        (("--entity", "X"), "no review of 'X' in these files; they have S, O"),
        (("--before", tmp_path / "after.toml"), "has the same facets as"),
        (("--before", tmp_path / "none.toml"), "none.toml: No such file or directory"),
    ):
        ended = trial(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err
    assert "name it with --before" in trial("--before", tmp_path / "after.toml").err
    ended = trial(files=[write("empty.jsonl", [])])
    assert (ended.code, "no reviews in these files" in ended.err) == (2, True)
    deleted = [*lines(STAY[:1]), *lines([{"type": "entity.deleted", "entity_id": "S"}])]
    ended = trial(files=[write("deleted.jsonl", deleted)])
    assert (ended.code, "'S' has no review at the end of these files" in ended.err) == (2, True)
    ended = trial(files=[write("bad.jsonl", [b"{", *lines(STAY)])])
    assert ended.code == 1
    assert "line 1: " in ended.err
    assert rows(ended)[0]["critics"] == ([None, None], [None, 2])
    wrong = {"type": "review.upserted", "entity_id": "S", "review_id": "r4", "review_version": 1,
        "sentences": [{"text": "Too short.", "embedding": "AACAPw=="}]}  # fmt: skip
    ended = trial(files=[write("wrong.jsonl", lines([*STAY, wrong]))])
    assert (ended.code, ended.err.count("line 4: ")) == (1, 1)
    (tmp_path / "after.toml").write_text("[[facet]]\nname = 3")
    ended = trial()
    assert (ended.code, "after.toml" in ended.err) == (2, True)
