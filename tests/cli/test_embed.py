"""`embed`: the vectors of files, once each, with the same bytes however many processes made them
and however often they were killed; and `vectors import`, after which nothing is embedded any more.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from pyarrow import parquet

from tests.cli.test_vectors import embedded, folder, reviews
from tests.harness.drive import FakeEngine
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent
from worker.coversumm import quantize
from worker.processing import config
from worker.sources.vector_file import VectorFile
from worker.storage import shared_files
from worker.storage.vectors import contents
from worker.text import identity
from worker.tools import embed

__all__ = ["embedded", "folder"]


@pytest.fixture
def engine(monkeypatch):
    """An engine that takes no time, in pieces of seven texts."""
    engine = FakeEngine()
    monkeypatch.setattr(config, "load_engine", lambda *_, **__: engine)
    monkeypatch.setattr(embed, "PIECE", 7)
    monkeypatch.setattr(embed, "GROUP", 2)
    return engine


def texts_asked(engine):
    """Without those of the identity."""
    return [text for text in engine.asked if text not in identity.PROBES]


@pytest.fixture
def path(write):
    """Real reviews as bare reviews; some sentences stand in several of them."""
    lines = [json.dumps(one).encode() for one in reviews()]
    again = {**reviews()[0], "review_id": "again", "text": reviews()[0]["text"] + " And more."}
    return write("reviews.jsonl.gz", [*lines, json.dumps(again).encode()])


def rows(output):
    with VectorFile(output) as file:
        return [
            (text, vector.tolist())
            for block in file.blocks()
            for text, vector in zip(block.texts, block.vectors, strict=True)
        ]


def report(ended):
    assert ended.code == 0, ended.err
    return json.loads(ended.out.splitlines()[-1])


def test_every_text_that_a_worker_embeds_once_in_order(run, write, tmp_path, engine):
    long = "word " * 500
    brought = {"text": "It brought its vector.", "embedding": [1, 0, 0]}
    events = [
        {"entity_id": "e", "review_id": 1, "text": "Good.<br>Bad &amp; old. Good."},
        {"entity_id": "e", "review_id": 2, "text": long, "rating": 4},
        {
            "type": "review.upserted",
            "entity_id": "f",
            "review_id": "3",
            "sentences": ["Given, not split. At all.", brought, " ", "Good."],
        },
        {"type": "review.deleted", "entity_id": "f", "review_id": "3"},
        {"type": "review.upserted", "entity_id": "f", "review_id": "3", "text": "An edit."},
    ]
    path = write("events.jsonl", [json.dumps(one).encode() for one in events])
    output = tmp_path / "vectors.parquet"
    told = report(run("embed", path, "--output", output))
    of_file = rows(output)
    engine.asked.clear()
    assert run("summarize", path).code == 0  # with the same settings and engine, and no store
    of_worker = list(dict.fromkeys(engine.asked))
    assert [text for text, _ in of_file] == of_worker
    assert {"Good.", "Bad & old.", "Given, not split. At all.", "An edit."} < set(of_worker)
    assert all(
        vector == quantize([FakeEngine.vector(text)])[0].tolist() for text, vector in of_file
    )
    assert (told["lines"], told["reviews"], told["texts"]) == (5, 4, len(of_file))
    assert told["sentences"] == len(of_file) + 2
    assert (
        os.listdir(tmp_path) == ["events.jsonl", "vectors.parquet"]
        or not output.with_name("vectors.parquet.parts").exists()
    )
    columns = parquet.read_table(output)
    assert columns.column_names == ["text", "vector"]
    data = columns.column("vector")[0].as_py()
    assert np.frombuffer(data, "<i2").tolist() == of_file[0][1]


def test_a_text_without_a_usable_vector_has_none(run, write, tmp_path, engine):
    event = {"type": "review.upserted", "entity_id": "e", "review_id": "1"}
    path = write("e.jsonl", [json.dumps({**event, "sentences": ["nan", "good"]}).encode()])
    report(run("embed", path, "-o", tmp_path / "v.parquet"))
    assert [text for text, _ in rows(tmp_path / "v.parquet")] == ["good"]


def test_a_table_with_other_names_and_no_review_at_all(run, tmp_path, engine):
    table = tmp_path / "table.csv"
    table.write_text("asin,id,body\nB1,1,Good. Bad.\nB2,2,\n")
    names = ["--fields", "entity_id=asin,review_id=id,text=body"]
    ended = run("embed", table, *names, "-o", tmp_path / "v.parquet")
    assert report(ended)["texts"] == 2
    assert "warning: text is empty in 1 review" in ended.err
    (tmp_path / "empty.jsonl").write_text("")
    assert (
        report(run("embed", tmp_path / "empty.jsonl", "-o", tmp_path / "n.parquet"))["texts"] == 0
    )
    assert rows(tmp_path / "n.parquet") == []


@pytest.mark.parametrize("named", ["", "*"])
def test_the_output_may_lie_among_the_reviews(run, path, tmp_path, engine, monkeypatch, named):
    """Neither it nor its parts are read."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    path = path.rename(folder / path.name)
    output = folder / "v.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(engine, "embed", interrupted(engine, 4))
        assert run("embed", folder / named, "-o", output).code == 130
    told = report(run("embed", folder / named, "-o", output))
    assert told["lines"] == len(reviews()) + 1
    assert report(run("embed", folder / named, "-o", output))["embedded_here"] == 0


class Killed(BaseException):
    """What is as sudden as a kill for the files."""


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_write_the_bytes_are_the_same(
    run, path, tmp_path, engine, monkeypatch, after
):
    """Before or after a file replaces another one, from the first to the last."""
    whole = tmp_path / "whole.parquet"
    texts = report(run("embed", path, "-o", whole))["texts"]
    assert Counter(texts_asked(engine)).most_common(1)[0][1] == 1
    output, replace = tmp_path / "v.parquet", os.replace
    writes = fatal = 0

    def dying(source, target):
        nonlocal writes
        writes += 1
        if writes == fatal and not after:
            raise Killed
        replace(source, target)
        if writes == fatal:
            raise Killed

    monkeypatch.setattr(shared_files.os, "replace", dying)
    killed = True
    while killed:
        engine.asked.clear()
        output.unlink(missing_ok=True)
        fatal, writes, killed = fatal + 1, 0, False
        try:
            run("embed", path, "-o", output)
        except Killed:
            killed = True
            assert report(run("embed", path, "-o", output))["texts"] == texts
            assert len(texts_asked(engine)) <= texts + embed.PIECE
        assert output.read_bytes() == whole.read_bytes()
        assert not output.with_name("v.parquet.parts").exists()
    assert fatal > 2 + 2 * (texts // embed.PIECE)


def test_complete_it_embeds_nothing_and_says_the_same(run, path, tmp_path, engine):
    output = tmp_path / "v.parquet"
    first = report(run("embed", path, "-o", output))
    engine.asked.clear()
    again = report(run("embed", path, "-o", output))
    assert texts_asked(engine) == []
    assert first.pop("embedded_here") == first["texts"]
    assert again.pop("embedded_here") == 0
    assert again | {"seconds": 0} == first | {"seconds": 0}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("other", ["files", "fields", "engine", "setting"])
def test_other_work_is_refused(run, path, tmp_path, engine, monkeypatch, other, begun):
    """Complete or not, before anything of it is touched."""
    output, more = tmp_path / "v.parquet", []
    if begun:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "embed", interrupted(engine, 3))
            assert run("embed", path, "-o", output).code == 130
    else:
        report(run("embed", path, "-o", output))
    if other == "files":
        path.write_bytes(path.read_bytes() + gzip.compress(b"\n"))
    elif other == "fields":
        more = ["--fields", "entity_id=entity_id"]
    elif other == "engine":
        monkeypatch.setattr(identity, "machine_type", lambda: "x86_64 another")
    else:
        monkeypatch.setenv("COVERSUMM_MAX_SENTENCE_CHARS", "500")
    before = {name: name.stat().st_mtime_ns for name in tmp_path.rglob("*.vectors")}
    ended = run("embed", path, "-o", output, *more)
    assert (ended.code, ended.out) == (2, "")
    said = {"engine": "another engine: its machine ", "setting": "other limits"}
    assert f"{output} was begun with {said.get(other, f'other {other}')}" in ended.err
    advice = (
        f"delete {output}.parts to start over" if begun else f"delete {output}, or name another"
    )
    assert advice in ended.err
    assert before == {name: name.stat().st_mtime_ns for name in tmp_path.rglob("*.vectors")}


def interrupted(engine, calls):
    """An engine's `embed` that Ctrl-C interrupts in this call."""
    made, count = engine.embed, 0

    def interrupted(texts):
        nonlocal count
        count += 1
        if count == calls:
            raise KeyboardInterrupt
        return made(texts)

    return interrupted


def test_ctrl_c_keeps_what_is_done(run, path, tmp_path, engine, monkeypatch):
    output = tmp_path / "v.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(engine, "embed", interrupted(engine, 4))  # the first is the identity's
        ended = run("embed", path, "-o", output)
    assert ended.code == 130
    assert f"interrupted: {output}.parts keeps the vectors so far; run the same" in ended.err
    assert not output.exists()
    told = report(run("embed", path, "-o", output))
    assert told["embedded_here"] == told["texts"] - 2 * embed.PIECE


def test_bad_lines_are_named_and_left_out(run, write, tmp_path, engine):
    good = [json.dumps(one).encode() for one in reviews()[:2]]
    one = write("one.jsonl", [good[0], b"{"])
    two = write("two.jsonl", [b'{"entity_id":"e"}', good[1]])
    ended = run("embed", one, two, "-o", tmp_path / "v.parquet")
    told = report(ended)
    assert (told["lines"], told["reviews"], told["unusable"]) == (4, 2, 2)
    assert f"{one}:2: bad_json: " in ended.err
    assert f"{two}:1: bad_field: " in ended.err
    assert (
        "warning: 2 lines could not be used and are left out: bad_json 1, bad_field 1" in ended.err
    )


def test_a_file_that_ends_early(run, path, tmp_path, engine):
    path.write_bytes(path.read_bytes()[:-20])
    ended = run("embed", path, "-o", tmp_path / "v.parquet")
    assert ended.code == 2
    assert f"{path} cannot be read after line " in ended.err
    assert not (tmp_path / "v.parquet").exists()


def test_what_cannot_be_embedded_is_said(run, path, tmp_path, engine, monkeypatch):
    ended = run("embed", "-", "-o", tmp_path / "v.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert "standard input cannot be read again" in ended.err
    ended = run("embed", path, "-o", path)
    assert f"{path} is an input file" in ended.err
    (tmp_path / "file").write_text("")
    ended = run("embed", path, "-o", tmp_path / "file" / "v.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert "v.parquet.parts cannot be written (Not a directory)" in ended.err
    ended = run("embed", path, "-o", tmp_path / "typo" / "v.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert f"--output: the folder {tmp_path / 'typo'} does not exist" in ended.err
    assert not (tmp_path / "typo").exists()
    (tmp_path / "other.parquet").write_text("PAR1")
    ended = run("embed", path, "-o", tmp_path / "other.parquet")
    assert ended.code == 2
    assert "other.parquet cannot be read" in ended.err
    monkeypatch.setattr(config, "load_engine", lambda *_, **__: None)
    assert "COVERSUMM_EMBEDDER is none" in run("embed", path, "-o", tmp_path / "v.parquet").err
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install" in run("embed", path, "-o", tmp_path / "v.parquet").err


def test_without_locks_it_says_so(run, path, tmp_path, engine, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(shared_files.fcntl, "flock", unsupported)
    ended = run("embed", path, "-o", tmp_path / "v.parquet")
    assert (ended.code, ended.out) == (2, "")
    assert "leader cannot be locked (Operation not supported)" in ended.err


def test_on_a_terminal(run, path, tmp_path, engine, terminal):
    terminal()
    ended = run("embed", path, "-o", tmp_path / "v.parquet")
    assert f"{tmp_path / 'v.parquet'}: the vectors of " in ended.out
    assert " in 13 reviews; " in ended.out
    assert f"coversumm-worker vectors import {tmp_path / 'v.parquet'}\n" in ended.err


def test_seen_texts_are_exact():
    """Against a set, in blocks of many lengths."""
    chance, seen, known = np.random.default_rng(5), embed.SeenTexts(), set()
    for _ in range(60):
        block = [str(number) for number in chance.integers(0, 3000, chance.integers(0, 90))]
        expected = [text for text in dict.fromkeys(block) if text not in known]
        assert seen.new(block) == expected
        known |= set(block)


# With the default engine and processes of their own.

PROCESS = """
import os, sys, time
from pathlib import Path
from worker.text.onnx import OnnxEngine
from worker.tools import embed

embed.PIECE = 16
made = embed.SharedEmbedding._embed_piece
own, wanted = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))

def meeting(self, number):
    "Embeds, then waits in the first piece until the file is there."
    if not own.exists() and self._path(number, embed.TEXTS).exists():
        embeds = self._engine.embed
        def waiting(texts):
            own.touch()
            while not wanted.exists():
                time.sleep(0.05)
            return embeds(texts)
        self._engine = type("Waiting", (), {"embed": staticmethod(waiting), "dimension": 384})()
    return made(self, number)

embed.SharedEmbedding._embed_piece = meeting
from worker.cli import main
main()
"""


@pytest.fixture
def start(path, tmp_path):
    """Start `embed` in a process that waits in its first piece, for a file, and says so."""
    started = []

    def start(name, wanted):
        words = [sys.executable, "-c", PROCESS, tmp_path / name, tmp_path / wanted]
        started.append(
            subprocess.Popen(
                [*words, "embed", path, "-o", tmp_path / "v.parquet"],
                env={**os.environ, "COVERSUMM_EMBEDDER": "onnx", "COVERSUMM_EMBEDDER_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def whole(run, path, tmp_path, folder, monkeypatch):
    """What one process makes."""
    monkeypatch.setattr(embed, "PIECE", 16)
    monkeypatch.setenv("COVERSUMM_EMBEDDER_THREADS", "1")
    monkeypatch.setenv("COVERSUMM_DIMENSION", "384")
    report(run("embed", path, "-o", tmp_path / "whole.parquet"))
    return (tmp_path / "whole.parquet").read_bytes()


def test_two_processes_share_the_work(start, tmp_path, whole):
    one, two = start("one", "two"), start("two", "one")
    told = [ended(one), ended(two)]
    assert all(each["embedded_here"] > 0 for each in told)
    assert sum(each["embedded_here"] for each in told) == told[0]["texts"]
    assert (tmp_path / "v.parquet").read_bytes() == whole


def test_one_that_is_killed_leaves_its_piece_to_the_other(start, tmp_path, whole):
    """The first has listed everything and holds a piece that it never finishes."""
    one = start("one", "never")
    eventually(lambda: (tmp_path / "one").exists())
    two = start("two", "two")
    parts = tmp_path / "v.parquet.parts"
    eventually(lambda: [each.name for each in parts.glob("*.texts")] == ["00000000.texts"])
    assert two.poll() is None
    one.send_signal(signal.SIGKILL)
    told = ended(two)
    assert told["embedded_here"] == told["texts"]
    assert (tmp_path / "v.parquet").read_bytes() == whole


def test_killed_and_run_again_then_nothing_is_embedded(
    start, run, path, tmp_path, whole, folder, embedded, monkeypatch
):
    """From the files of reviews to summaries, through a kill."""
    first = start("one", "never")
    eventually(lambda: (tmp_path / "one").exists())
    first.kill()
    embedded.clear()
    output = tmp_path / "v.parquet"
    told = report(run("embed", path, "-o", output))
    assert output.read_bytes() == whole
    assert told["embedded_here"] == told["texts"] == sum(map(len, embedded[1:]))
    added = report(run("vectors", "import", output))
    assert (added["files"], added["added"], added["known"]) == (1, told["texts"], 0)
    assert contents(folder)[0].vectors == told["texts"]
    embedded.clear()
    with_store = run("summarize", path, "-k", "2")
    assert with_store.code == 0, with_store.err
    assert len(embedded) == 1, "only to find out which engine it is"
    monkeypatch.delenv("COVERSUMM_VECTOR_STORE_DIR")
    assert run("summarize", path, "-k", "2").out == with_store.out
    assert report(run("embed", path, "-o", output))["embedded_here"] == 0


def test_vectors_of_another_engine_are_refused(run, path, tmp_path, folder, monkeypatch):
    monkeypatch.setattr(identity, "machine_type", lambda: "x86_64 amx_tile avx")
    report(run("embed", path, "-o", tmp_path / "v.parquet"))
    monkeypatch.setattr(identity, "machine_type", lambda: "x86_64 avx avx2")
    refused = run("vectors", "import", tmp_path / "v.parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "of another engine than the one here: its machine has amx_tile and lacks" in refused.err
    assert "lacks avx2; nothing was imported. Run `embed` on the type of machine" in refused.err
    assert "there is no vector store" in run("vectors", "info").err or not contents(folder)


def test_a_damaged_file_is_refused(run, path, tmp_path, folder):
    output = tmp_path / "v.parquet"
    report(run("embed", path, "-o", output))
    data = bytearray(output.read_bytes())
    data[len(data) // 2] ^= 1
    output.write_bytes(data)
    refused = run("vectors", "import", output)
    assert (refused.code, refused.out) == (2, "")
    assert f"{output} cannot be read" in refused.err
    output.write_bytes(data[:-9])
    assert run("vectors", "import", output).code == 2


def test_reviews_are_no_vectors(run, tmp_path, folder, path):
    import pyarrow as pa

    parquet.write_table(pa.table({"text": ["Good."]}), tmp_path / "r.parquet")
    refused = run("vectors", "import", tmp_path / "r.parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "r.parquet has no vectors of `embed`" in refused.err


def test_more_than_the_store_has_room_for_is_refused(run, path, tmp_path, folder, monkeypatch):
    report(run("embed", path, "-o", tmp_path / "v.parquet"))
    monkeypatch.setattr("worker.storage.vectors.StoredVectors.capacity", 10)
    refused = run("vectors", "import", tmp_path / "v.parquet")
    assert (refused.code, refused.out) == (2, "")
    assert "COVERSUMM_VECTOR_STORE_BYTES=2GiB has room for 10 vectors, and there are" in refused.err
    assert "set it to 1" in refused.err
