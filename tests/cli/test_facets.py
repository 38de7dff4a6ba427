"""`facets suggest`: from files to a file of facets that `summarize` takes."""

import json
import re
from collections import Counter

import numpy as np
import pytest

from tests.cli.events import delete, lines, sample
from worker.events import Record, decode, read_line
from worker.facets.definitions import read_definitions
from worker.facets.suggest import is_short
from worker.operations import facets_suggest
from worker.processing import config
from worker.settings import Settings

REVIEWS = 400


class WordEngine:
    """A text's vector has a place for each of its words, so sentences with the same words are
    near each other.
    """

    model, dimension = "words", 384

    def embed(self, texts):
        found = np.full((len(texts), self.dimension), 1e-3, np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                found[row, sum(map(ord, word)) % self.dimension] += 1
        return found


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """The engine of all commands, unless they ask for none."""
    real = config.configured_engine
    for module in ("worker.operations.facets_suggest", "worker.operations.summarize_run"):
        monkeypatch.setattr(
            f"{module}.configured_engine",
            lambda settings: real(settings) if settings.embedder == "none" else WordEngine(),
        )
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "onnx")
    monkeypatch.delenv("COVERSUMM_DIMENSION")


def bare(count=REVIEWS):
    """Bundled reviews without vectors."""
    events = sample(count)
    return [event | {"sentences": [one["text"] for one in event["sentences"]]} for event in events]


@pytest.fixture(scope="module")
def reviews():
    return lines(bare())


def texts(events):
    return [text for event in events for text in event["sentences"] if is_short(text)]


def test_a_file_that_loads_and_divides_the_same_reviews(run, write, tmp_path, reviews):
    file, target = write("reviews.jsonl", reviews), tmp_path / "facets.toml"
    ended = run("facets", "suggest", file, "--output", target)
    assert (ended.code, ended.out) == (0, "")
    assert re.fullmatch(rf"{REVIEWS} lines, [0-9.]+ s\n", ended.err)
    facets = read_definitions(str(target)).facets
    assert 2 <= len(facets) <= 9
    found = texts(map(json.loads, reviews))
    assert {one.phrases[0] for one in facets} <= {" ".join(text.split()) for text in found}
    head = target.read_text().splitlines()
    assert head[0] == (
        f"# Facets suggested from {len(found):,} sentences of 3 to 12 words, "
        f"{len(set(found)):,} different ones, of 1 entity."
    )
    assert "For a person to edit" in head[1]
    counts = re.findall(r"^# ([\d,]+) sentences, \d+ %; ", target.read_text(), re.M)
    assert sum(int(one.replace(",", "")) for one in counts) == len(found)
    ended = run("summarize", file, "--facets", target, "--view", "facets")
    assert ended.code == 0
    (view,) = map(json.loads, ended.out.splitlines())
    assert {one["name"] for one in view["facets"]} == {one.name for one in facets if not one.hidden}
    assert all(one["sentence_count"] for one in view["facets"])


def test_columns_of_a_table(run, write):
    rows = [b"shop,id,body", *(b'S,%d,"It was %d times good."' % (n, n) for n in range(40))]
    ended = run(
        "facets", "suggest", write("t.csv", rows), "--facets", "2",
        "--fields", "entity_id=shop,review_id=id,text=body",
    )  # fmt: skip
    assert ended.code == 0
    assert "40 sentences of 3 to 12 words, 40 different ones, of 1 entity" in ended.out


def test_only_live_sentences_count(run, write):
    events = bare(60)
    edited = {**events[0], "sentences": ["The edit alone is live here."]}
    taken = {
        "type": "sentences.deleted",
        "entity_id": events[1]["entity_id"],
        "sentence_ids": [f"{events[1]['review_id']}#0"],
    }
    gone = {**events[2], "entity_id": "gone"}
    ended = {"type": "entity.deleted", "entity_id": "gone"}
    given = [*events, edited, taken, *map(delete, events[40:]), gone, ended]
    live = facets_suggest.LiveSentences(config.event_limits(Settings()))
    records = [Record("t", 0, n, -1, *read_line(line)) for n, line in enumerate(lines(given))]
    for event in decode(records, live.limits):
        assert live.apply(event) is None
    kept = [edited, {**events[1], "sentences": events[1]["sentences"][1:]}, *events[2:40]]
    expected = Counter(texts(kept))
    assert {text: of.total() for text, of in live.entities_of().items()} == expected


def test_too_few_sentences(run, write, tmp_path):
    target = tmp_path / "facets.toml"
    file = write("few.jsonl", lines(bare(5)))
    ended = run("facets", "suggest", file, "-o", target)
    few = len(set(texts(bare(5))))
    assert ended.code == 2
    assert ended.err.endswith(
        f"coversumm-worker: error: only {few} different sentences of 3 to 12 words: 90 are needed "
        "for 9 facets: give more reviews, or lower --facets\n"
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
