"""`summarize` on what people have: its forms of output, files of all kinds, and endings that keep
what was written.
"""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import msgspec
import pytest

from tests.cli.events import lines, sample
from tests.harness.patience import PATIENCE_SECONDS
from worker.summarizer import Summarizer

COMMAND = [sys.executable, "-m", "worker", "summarize"]


@pytest.fixture
def content():
    """Reviews of four stays; one of them is deleted again, another loses its only review."""
    events = [{**event, "entity_id": f"stay {i % 3}"} for i, event in enumerate(sample(90))]
    gone = {**events[0], "entity_id": "gone"}
    empty = {**events[1], "entity_id": "empty"}
    ends = [
        {"type": "entity.deleted", "entity_id": "gone"},
        {"type": "review.deleted", "entity_id": "empty", "review_id": empty["review_id"]},
    ]
    return lines([gone, empty, *events, *ends])


def bodies(out):
    return [json.loads(line) for line in out.splitlines()]


def test_final_is_the_last_change_of_each_entity_that_has_a_summary(run, write, content):
    path = write("events.jsonl", content)
    every = bodies(run("summarize", path, "-k", "4").out)
    ended = run("summarize", path, "-k", "4", "--final")
    assert ended.code == 0
    last = {body["entity_id"]: body for body in every}
    assert last["empty"]["sentences"] == last["gone"]["sentences"] == []
    states = [state_of(f"stay {i}", content, k=4) for i in range(3)]
    assert bodies(ended.out) == [
        last[f"stay {i}"]
        | {
            "review_count": state.review_count,
            "sentence_count": state.sentence_count,
            "ratings": msgspec.to_builtins(state.ratings),
        }
        for i, state in enumerate(states)
    ]
    assert f", {len(every)} changes, " in ended.err


def test_pretty_shows_each_sentence_in_full(run, write, content, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = run("summarize", write("events.jsonl", content), "-k", "3", "--pretty")
    assert shown.code == 0
    *cards, end = shown.out.split("\n\n")
    assert (len(cards), end) == (3, "")
    for number, card in enumerate(cards):
        state = state_of(f"stay {number}", content, k=3)
        assert card.startswith(f"stay {number} {state.review_count} reviews, ")
        words = " ".join(card.split())
        for sentence in state.sentences:
            assert all(word in words for word in sentence.text.split())
    assert all(len(line) <= 60 for line in shown.out.splitlines())


def state_of(entity_id, content, k):
    """The entity after all events."""
    stays = Summarizer(k=k, embedder="none", dimension=3)
    stays.add(map(json.loads, content))
    return stays.summary(entity_id)


def test_a_file_of_output_is_there_whole_or_not_at_all(run, write, tmp_path, content):
    path, target = write("events.jsonl", content), tmp_path / "changes.jsonl"
    expected = run("summarize", path).out
    assert run("summarize", path, "-o", target).out == ""
    assert target.read_text() == expected
    packed = tmp_path / "changes.jsonl.gz"
    assert run("summarize", path, "-o", packed).code == 0
    assert gzip.decompress(packed.read_bytes()).decode() == expected
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"\n".join(content))[:-200])
    assert run("summarize", cut, "-o", target).code == 2
    assert target.read_text() == expected
    part = tmp_path / "changes.jsonl.part"
    kept = part.read_bytes()
    assert kept
    assert run("summarize", part, "-o", target).err.endswith("name another one with -o\n")
    assert part.read_bytes() == kept
    assert not list(tmp_path.glob(".*"))
    same = run("summarize", path, "-o", path)
    assert same.code == 2
    assert "is an input file" in same.err
    assert run("summarize", path, "-o", "/dev/null").code == 0
    nowhere = run("summarize", path, "-o", tmp_path / "no" / "file")
    assert nowhere.code == 2
    assert nowhere.err.endswith("cannot be written (No such file or directory)\n")


def test_a_table_gives_what_lines_of_json_give(run, write, monkeypatch, content):
    """No model: the reviews are rejected for that, each by the number of its line."""
    table = [b"asin,id,body", b'B00X,1,"Two', b'lines."', b"B00X,2,One."]
    ended = run(
        "summarize",
        write("some.csv", table),
        "--fields",
        "entity_id=asin,review_id=id",
        "--fields",
        "text=body",
    )
    assert ended.code == 1
    assert [line.split(": ")[:2] for line in ended.err.splitlines()[:2]] == [
        ["line 2", "no_embedding"],
        ["line 4", "no_embedding"],
    ]
    assert "2 of 2 rows could not be used: no_embedding 2" in ended.err
    assert run("summarize", write("some.csv", table), "--fields", "asin=entity_id").code == 2


def test_what_looks_wrong_in_a_table_is_told_by_the_names_of_its_columns(run, write):
    """Each once, with the number of its rows; what is bad counts by lines."""
    fields = [
        "--fields",
        "entity_id=hotel, name,review_id=id,text=body",
        "--fields",
        "rating=stars",
    ]
    header = b'"hotel, name",id,body,stars'
    table = [
        header,
        b"hut,1,,many",
        b"hut,2,NULL,5",
        header,
        b",3,,5",
        b'hut,4,"open,5',
        b"hut,5,,5",
    ]
    ended = run("summarize", write("some.csv", table), *fields)
    assert ended.code == 1
    *printed, closing, error = ended.err.splitlines()
    assert printed == [
        "line 5: bad_field: hotel, name (for entity_id): missing",
        "line 6: bad_row: lines 6 to 7 are skipped: unexpected end of data "
        "(a quote too many, or one that is never closed?)",
        "warning: stars (for rating) was left out of 1 review: not a number; "
        "first in line 2: 'many'",
        "warning: body (for text) is empty in 3 reviews, which have no sentence; first in line 2",
        "warning: the header is repeated in 1 row, skipped; first in line 4",
    ]
    assert closing.startswith("5 rows, 1 entity, ")
    assert error.endswith("3 of 5 rows could not be used: bad_row 2, bad_field 1")


@pytest.mark.parametrize("content", [[], [b"", b" "], [b"entity_id,review_id,text"]])
def test_a_file_without_a_review_is_told(run, write, content):
    full = write("full.jsonl", lines(sample(1)))
    ended = run("summarize", write("some.csv", content), full)
    assert ended.code == 0
    assert ended.err.splitlines()[1].startswith("warning: no reviews and no events in /")
    assert ended.err.endswith("some.csv\n")
    assert run("summarize", full).err.count("\n") == 1


def test_texts_with_a_backslash_and_an_n_are_told_once_and_read_as_line_breaks(
    run, write, monkeypatch
):
    monkeypatch.delenv("COVERSUMM_DIMENSION")
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "onnx")
    reviews = [
        {"entity_id": "hut", "review_id": i, "text": r"Clean rooms.\nKind staff."} for i in range(3)
    ]
    path = write("some.jsonl", lines(reviews))
    ended = run("summarize", path, "--final")
    assert ended.err.splitlines()[0] == (
        "hint: a text has a backslash and an n in 3 reviews; first in line 1; "
        "if these are line breaks, pass --unescape"
    )
    assert bodies(ended.out)[0]["sentences"][0]["text"] == r"Clean rooms.\nKind staff."
    ended = run("summarize", path, "--final", "--unescape")
    assert "hint" not in ended.err
    texts = {sentence["text"] for sentence in bodies(ended.out)[0]["sentences"]}
    assert texts == {"Clean rooms.", "Kind staff."}


def test_at_most_ten_lines_are_reported_one_by_one(run, write, content):
    ended = run("summarize", write("some.jsonl", [*content, *[b"{"] * 30]))
    printed = ended.err.splitlines()
    first = len(content) + 1
    assert [line.split(":")[0] for line in printed[:10]] == [f"line {first + i}" for i in range(10)]
    assert printed[10] == "more lines that cannot be used are counted, not shown"
    assert printed[-1].endswith(f"30 of {first + 29} lines could not be used: bad_json 30")
    assert printed[-2].startswith("30 times, such as bad_json: ")
    assert printed[-2].endswith(f" (line {first})")
    assert len(printed) == 14


def test_a_reader_that_has_enough_ends_it_although_nothing_more_is_written(write, content):
    """The rest of standard input never comes, and would change nothing."""
    with subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(content[0] + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"type":"entity.deleted","entity_id":"nobody"}\n')
        process.stdin.flush()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr.read() == b""


def test_a_pipe_that_pauses_is_answered():
    """However little has come."""
    reviews = [
        {"entity_id": "e", "review_id": i, "sentences": [{"text": "Good.", "embedding": [1, i, 0]}]}
        for i in range(3)
    ]
    with subprocess.Popen(
        [*COMMAND, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        for number, line in enumerate(lines(reviews)):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["sequence"] == number
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("name", [None, "changes.jsonl", "changes.jsonl.gz"])
def test_ctrl_c_keeps_the_output_so_far(write, tmp_path, content, name):
    """Of a file in another one: it is not complete, and an older one stays."""
    options = ["--final"]
    if name is not None:
        target, part = tmp_path / name, tmp_path / f"{name}.part"
        target.write_text("older")
        options += ["-o", str(target)]
    primary, secondary = pty.openpty()  # a terminal, so that its progress says how far it is
    with subprocess.Popen(
        [*COMMAND, "-", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=secondary
    ) as process:
        os.close(secondary)
        process.stdin.write(b"\n".join(content[:20]) + b"\n")
        process.stdin.flush()
        shown = b""
        while b"20 lines" not in shown:
            shown += os.read(primary, 4096)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    with suppress(OSError):  # at its end; a read gives no more than what has come so far
        while more := os.read(primary, 4096):
            shown += more
    os.close(primary)
    assert "interrupted: 20 lines, 5 entities, " in shown.decode()
    if name is not None:
        assert f"the output so far is in {part}" in shown.decode()
        assert (target.read_text(), out) == ("older", b"")
        out = gzip.decompress(part.read_bytes()) if name.endswith(".gz") else part.read_bytes()
    assert not list(tmp_path.glob(".*part"))
    entities = [body["entity_id"] for body in bodies(out)]
    assert entities == ["empty", "gone", "stay 0", "stay 1", "stay 2"]


def test_a_file_whose_name_is_not_utf_8_is_read(run, write):
    path = write(os.fsdecode(b"events\xff.jsonl"), lines(sample(1)))
    ended = run("summarize", path)
    assert ended.code == 0
    assert bodies(ended.out)[0]["cause"]["topic"] == "events\N{REPLACEMENT CHARACTER}.jsonl"


def test_reviews_that_the_model_does_not_read_are_told(run, write, monkeypatch):
    """By their tags, else by their texts."""
    monkeypatch.delenv("COVERSUMM_DIMENSION")
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "onnx")
    french = [
        {"text": "Le logement était très propre et bien situé, près du métro."},
        {"text": "Breakfast was cold.", "language": "fr-CA"},
    ]
    english = [{"text": "The room was clean and the location was great."}] * 4
    reviews = [
        {"entity_id": "e", "review_id": str(at), **review}
        for at, review in enumerate([*french, *english])
    ]
    told = "warning: 2 of 6 reviews are in fr; the model reads en"
    assert (
        told in run("summarize", write("a.jsonl", lines(reviews)), "--facets", "preset:stays").err
    )
    assert "warning" not in run("summarize", write("b.jsonl", lines(reviews))).err
    only = write("c.jsonl", lines(reviews[2:]))
    assert "warning" not in run("summarize", only, "--facets", "preset:stays").err


def test_a_table_of_another_system_is_read_as_its_options_say(run, write):
    rows = [b"shop,sku,,text,occurred_at,state", b"de,7,1,Good.,10.01.2025 07:33,APPROVED",
            b"de,7,2,Bad.,11.01.2025 07:33,DELETED"]  # fmt: skip
    path = write("table.csv", rows)
    fields = ["--fields", "entity_id=shop+sku,review_id=#3", "--where", "state=APPROVED"]
    ended = run("summarize", path, *fields)
    assert "1 review has another value than --where asks for, skipped; first in line 3" in ended.err
    assert 'if it is one, pass --dates "%d.%m.%Y %H:%M"; first in line 2: ' in ended.err
    ended = run("summarize", path, *fields, "--dates", "%d.%m.%Y %H:%M")
    assert "1 review has another value" in ended.err
    assert "occurred_at" not in ended.err


def test_options_that_say_nothing_are_refused(run, write):
    path = write("table.csv", [b"entity_id,review_id,text", b"e,1,Good."])
    ended = run("summarize", path, "--where", "state")
    assert (ended.code, "'state' is not MEMBER=VALUE" in ended.err) == (2, True)
    ended = run("summarize", path, "--dates", "%H:%M")
    assert (ended.code, "'%H:%M' has no day, month or year" in ended.err) == (2, True)
