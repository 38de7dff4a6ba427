"""`summarize` writes what the contract's model says, whatever form the file has."""

import gzip
import json
import lzma
import re
import subprocess
import sys

import pytest

from tests.cli.events import delete, lines, sample
from tests.harness.drive import FakeEngine, base64_vector, config
from tests.harness.facet_model import FacetModel
from tests.harness.model import Model
from worker.events import Record, read_line
from worker.facets.definitions import read_definitions
from worker.facets.membership import facet_criteria


def modelled(content, topic, **changes):
    """The bodies of the model, for lines of a file processed at once."""
    model = Model(
        config(**{"epoch": 1, "k": 20, "limits": {"model": None}, **changes}), FakeEngine.vector
    )
    records = [
        Record(topic, 0, i, -1, *read_line(line)) for i, line in enumerate(content) if line.strip()
    ]
    messages, _ = model.run(records)
    return [body for _, body, _ in messages if body is not None]


@pytest.fixture(scope="module")
def content():
    """Reviews of one stay, then edits, deletions, a deleted entity and its return; blank lines
    between.
    """
    events = sample(150)
    edit = {**events[3], "sentences": events[4]["sentences"]}
    gone = {"type": "entity.deleted", "entity_id": events[0]["entity_id"]}
    unknown = {**gone, "entity_id": "nobody"}
    events_and_edits = [
        *events[:100],
        edit,
        *map(delete, events[5:60:3]),
        unknown,
        *events[100:],
        gone,
        *events[:5],
    ]
    return [b"", *lines(events_and_edits)[:20], b"  ", *lines(events_and_edits)[20:]]


def test_equals_the_model(run, write, content):
    ended = run("summarize", write("events.jsonl", content))
    assert ended.code == 0
    closing = r"177 lines, 1 entity, 48 changes, [0-9.]+ s, ignored: unknown_entity 1\n"
    assert re.fullmatch(closing, ended.err)
    expected = modelled(content, "events.jsonl")
    assert len(expected) > 40
    assert ended.out.encode().splitlines() == expected


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--k", "3"], {"k": 3}),
        (["--k", "4", "--distinct"], {"k": 4, "distinct": True}),
        (["--weigh", "texts"], {"by_text": True}),
        (["--emit", "coalesced"], {"emit": "coalesced"}),
    ],
)
def test_options_override_the_settings(run, write, monkeypatch, content, options, changes):
    monkeypatch.setenv("COVERSUMM_K", "20")
    monkeypatch.setenv("COVERSUMM_DISTINCT", "false")
    ended = run("summarize", write("events.jsonl", content), *options)
    assert ended.code == 0
    assert ended.out.encode().splitlines() == modelled(content, "events.jsonl", **changes)


def test_settings_count(run, write, monkeypatch, content):
    for name, value in {"K": "2", "EPOCH": "9", "DISTINCT": "true"}.items():
        monkeypatch.setenv(f"COVERSUMM_{name}", value)
    ended = run("summarize", write("events.jsonl", content))
    expected = modelled(content, "events.jsonl", k=2, distinct=True, epoch=9)
    assert ended.out.encode().splitlines() == expected
    assert run("summarize", write("events.jsonl", content), "--no-distinct").out != ended.out


def test_gzip_whatever_the_name_and_standard_input(run, write, tmp_path, content):
    expected = modelled(content, "events.jsonl.gz")
    assert run("summarize", write("events.jsonl.gz", content)).out.encode().splitlines() == expected
    misnamed = tmp_path / "events.jsonl"
    misnamed.write_bytes(gzip.compress(b"\n".join(content)))
    assert run("summarize", misnamed).out.encode().splitlines() == modelled(content, "events.jsonl")
    command = [sys.executable, "-m", "worker", "summarize", "-"]
    done = subprocess.run(command, input=b"\n".join(content), capture_output=True, check=True)
    assert done.stdout.splitlines() == modelled(content, "stdin")
    assert done.stderr.startswith(b"177 lines, 1 entity, 48 changes, ")
    assert done.stderr.count(b"\n") == 1


def test_unusable_lines_are_named_and_all_others_processed(run, write):
    good = lines(sample(3))
    bad = [b"{", b'{"type":"review.renamed","entity_id":"e"}', b'{"entity_id":"e"}', b"[1]"]
    content = [good[0], bad[0], b"", bad[1], good[1], bad[2], bad[3], good[2]]
    ended = run("summarize", write("some.jsonl", content))
    assert ended.code == 1
    printed = ended.err.splitlines()
    assert [line.split(": ")[:2] for line in printed[:-2]] == [
        ["line 2", "bad_json"],
        ["line 4", "unknown_type"],
        ["line 6", "bad_field"],
        ["line 7", "bad_field"],
    ]
    assert printed[-2].startswith("7 lines, 1 entity, 3 changes, ")
    reasons = "bad_field 2, bad_json 1, unknown_type 1"
    assert printed[-1] == f"coversumm-worker: error: 4 of 7 lines could not be used: {reasons}"
    sequences = [json.loads(line)["sequence"] for line in ended.out.splitlines()]
    assert sequences == [0, 4, 7]


@pytest.mark.parametrize("options", [[], ["--final"], ["--emit", "coalesced"], ["--pretty"]])
@pytest.mark.parametrize("packed", [gzip, lzma])
def test_a_file_that_ends_early(run, write, tmp_path, content, packed, options):
    """All lines before the place are summarized."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(packed.compress(b"\n".join(content))[:-200])
    ended = run("summarize", path, *options)
    assert ended.code == 2
    closing, error = ended.err.splitlines()
    where = re.match(f"coversumm-worker: error: {path} cannot be read after line ([0-9]+) ", error)
    good = content[: int(where[1])]
    assert 0 < len(good) < len(content)
    assert closing.startswith(f"cut short: {sum(bool(line.strip()) for line in good)} lines, ")
    path.write_bytes(b"\n".join(good))
    whole = run("summarize", path, *options)
    assert (whole.code, whole.out) == (0, ended.out)


def test_nothing(run, write):
    for name, content in (("empty.jsonl", []), ("empty.jsonl.gz", [b"", b" "])):
        ended = run("summarize", write(name, content))
        assert ended[:2] == (0, "")
        assert ended.err.startswith("0 lines, 0 entities, 0 changes, ")


def test_short_views(run, write, content):
    """One for each entity that is left with a sentence, as the state at the end tells it."""
    ended = run(
        "summarize",
        write("events.jsonl", content),
        "--view",
        "short",
        "--sentences",
        "4",
        "--k",
        "2",
    )
    assert ended.code == 0
    (view,) = map(json.loads, ended.out.splitlines())
    assert view["entity_id"] == sample(1)[0]["entity_id"]
    assert (view["review_count"], len(view["sentences"]) <= 4) == (5, True)
    assert view["sentences"][0]["stands_for"] >= view["sentences"][0]["stands_for_reviews"] >= 1
    words = run("summarize", write("events.jsonl", content), "--view", "short", "--words", "9")
    (short,) = map(json.loads, words.out.splitlines())
    assert 0 < sum(len(sentence["text"].split()) for sentence in short["sentences"]) <= 9
    cards = run("summarize", write("events.jsonl", content), "--view", "short", "--pretty")
    assert f"for {view['sentences'][0]['stands_for']}" in cards.out


@pytest.fixture
def facets_file(tmp_path):
    """Facets of vectors, and of the newest reviews."""
    path = tmp_path / "facets.toml"
    vectors = [base64_vector([1, at, 0.5]) for at in (0, 3)]
    path.write_text(
        f'[[facet]]\nname = "one"\nvectors = ["{vectors[0]}"]\nthreshold = 0.9\n'
        f'[[facet]]\nname = "three"\nvectors = ["{vectors[1]}"]\nk = 2\n'
        '[[facet]]\nname = "news"\nnewest = 4\n'
    )
    return path


def test_changes_of_facets_equal_the_model(run, write, content, facets_file):
    """Beside those of summaries, in the order of the lines; the last of each entity at the end."""
    facets = facet_criteria(read_definitions(str(facets_file)), 3, None)
    settings = config(epoch=1, k=20, limits={"model": None}, facets=facets, facets_topic="facets")
    model = FacetModel(settings, FakeEngine.vector)
    records = [
        Record("events.jsonl", 0, i, -1, *read_line(line))
        for i, line in enumerate(content)
        if line.strip()
    ]
    expected = [body for _, body, _ in model.run(records)[0] if body is not None]
    ended = run("summarize", write("events.jsonl", content), "--facets", facets_file)
    assert ended.code == 0
    assert ended.out.encode().splitlines() == expected
    final = run("summarize", write("events.jsonl", content), "--facets", facets_file, "--final")
    assert final.out.encode().splitlines() == [
        [line for line in expected if line.startswith(b'{"type":"%s.changed"' % kind)][-1]
        for kind in (b"summary", b"facets")
    ]


def test_the_last_changes_have_the_counts_of_the_end(run, write, tmp_path):
    """No review after the first changes a set: all vectors are the same."""
    facets = tmp_path / "facets.toml"
    facets.write_text(
        '[[facet]]\nname = "fans"\nrating = { min = 4 }\nk = 1\nwords = ["clean*"]\n'
        '[[facet]]\nname = "total"\nnewest = 100\nk = 1\n'
    )
    said = [(5, "Great."), (3, "Fine."), (5, "Cleaning was late."), (5, "Good."), (5, "Clean.")]
    events = [
        json.dumps(
            {
                "type": "review.upserted",
                "entity_id": "e",
                "review_id": str(number),
                "rating": rating,
                "sentences": [{"text": text, "embedding": [1, 0, 0]}],
            }
        ).encode()
        for number, (rating, text) in enumerate(said)
    ]
    options = [write("events.jsonl", events), "--facets", facets, "-k", "1"]
    summary, changed = map(json.loads, run("summarize", *options, "--final").out.splitlines())
    view = json.loads(run("summarize", *options, "--view", "facets").out)
    every = [json.loads(line) for line in run("summarize", *options).out.splitlines()]
    before = [line for line in every if "facets" in line][-1]
    assert before["review_count"] == 1
    assert changed["sequence"] == before["sequence"] == 0
    assert {body["review_count"] for body in (summary, changed, view)} == {5}
    assert summary["ratings"] == changed["ratings"] == view["ratings"]
    assert [facet["name"] for facet in changed["facets"]] == ["fans", "total"]
    for now, then in zip(view["facets"], changed["facets"], strict=True):
        (old,) = [facet for facet in before["facets"] if facet["name"] == then["name"]]
        assert then == now | {"sentences": old["sentences"]}
    assert changed["facets"][0]["mentions"]["review_count"] == 2


def test_views_of_facets(run, write, content, facets_file, monkeypatch):
    file = write("events.jsonl", content)
    monkeypatch.setenv("COVERSUMM_FACETS", str(facets_file))
    (view,) = map(json.loads, run("summarize", file, "--view", "facets").out.splitlines())
    last = json.loads(run("summarize", file, "--final").out.splitlines()[1])
    assert [facet["name"] for facet in view["facets"]] == [
        facet["name"] for facet in last["facets"]
    ]
    assert {facet["name"] for facet in view["facets"]} == {"one", "three", "news"}
    words = ["--view", "overview", "--words", "40"]
    (overview,) = map(json.loads, run("summarize", file, *words).out.splitlines())
    first = view["facets"][0]
    assert overview["sentences"][0]["facet"] == first["name"]
    assert overview["sentences"][0]["text"] == first["sentences"][0]["text"]
    count = f"{first['name']}, {first['sentence_count']} sentences"
    for options in (["--view", "facets"], []):
        assert count in run("summarize", file, "--pretty", *options).out
    card = run("summarize", file, "--pretty", *words).out
    assert count not in card
    counts = f"{first['name']} +{first['review_count']:,} reviews +"
    assert re.search(f"^{counts}{re.escape(first['sentences'][0]['text'][:20])}", card, re.M)
    assert f"[{first['sentences'][0]['review_id']}]" in "".join(card.split())
    monkeypatch.delenv("COVERSUMM_FACETS")
    for view in ("facets", "overview"):
        refused = run("summarize", file, "--view", view)
        assert (refused.code, refused.out) == (2, "")
        assert "COVERSUMM_FACETS" in refused.err


@pytest.mark.parametrize(
    "options",
    [
        ["--words", "5"],
        ["--view", "facets", "--words", "5"],
        ["--threshold", "0.5"],
        ["--view", "short", "--threshold", "1"],
        ["--view", "short", "--threshold", "nan"],
        ["--view", "long"],
        ["--view", "short", "--language", "fr"],
        ["--language", "fr"],
    ],
)
def test_a_short_view_that_is_none(run, write, content, options):
    assert run("summarize", write("events.jsonl", content), *options).code == 2
