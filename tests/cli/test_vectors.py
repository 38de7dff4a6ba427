"""`vectors`: what a worker's state has embedded is not embedded again, and what another machine
made never gets in.
"""

import gzip
import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from tests.cli.stored import store_rows
from tests.harness.drive import config, record
from tests.harness.eventually import eventually
from worker.processing.processor import Processor
from worker.settings import Settings
from worker.state import MemoryRows
from worker.state.keys import APPLIED, ENTITY, VECTORS, parse_entity_key
from worker.state.rows import decode_applied, decode_vectors, encode_applied, encode_vectors
from worker.storage.vectors import StoredVectors, contents
from worker.text.embedders import load_engine
from worker.text.identity import engine_identity, machine_type
from worker.text.onnx import OnnxEngine
from worker.tools import vectors as vector_import

REVIEWS = Path(__file__).parents[2] / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
COUNT = 12


def reviews():
    with gzip.open(REVIEWS, "rt", encoding="utf-8") as lines:
        return [json.loads(next(lines)) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def engine():
    return load_engine("onnx", threads=1)


@pytest.fixture(scope="module")
def rows(engine):
    """What a worker stores after the reviews; some brought their vectors, and one was edited."""
    rows = MemoryRows()
    limits = {"model": engine.model, "dimension": engine.dimension}
    processor = Processor(config(limits=limits), lambda _: rows, engine)
    events = [
        {"type": "review.upserted", "review_id": one["review_id"], "text": one["text"]}
        for one in reviews()
    ]
    events.append({**events[0], "text": f"{events[0]['text']} A new sentence."})
    vector = [0.5] * engine.dimension
    brought = [{"text": "It brought its vector.", "embedding": vector}]
    events.append(
        {
            "type": "review.upserted",
            "review_id": "brought-by-an-event-of-its-own",
            "sentences": brought,
        }
    )
    records = [
        record(offset, reviews()[0]["entity_id"], event) for offset, event in enumerate(events)
    ]
    batch = processor.process(records)
    assert batch.taken == len(records)
    rows.write(batch.rows[0])
    return dict(rows.scan(b""))


@pytest.fixture
def data_dir(tmp_path, rows):
    store_rows(tmp_path / "data", 0, rows)
    store_rows(tmp_path / "data", 1, {})
    return tmp_path / "data"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERSUMM_VECTOR_STORE_DIR", str(tmp_path / "vectors"))
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "onnx")
    monkeypatch.delenv("COVERSUMM_DIMENSION")
    return tmp_path / "vectors"


@pytest.fixture
def embedded(monkeypatch):
    """The texts that engines are given, one list a call."""
    calls = []
    embed = OnnxEngine.embed

    def noted(engine, texts):
        calls.append(list(texts))
        return embed(engine, texts)

    monkeypatch.setattr(OnnxEngine, "embed", noted)
    return calls


def summarize(run, tmp_path, *options):
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in reviews()))
    ended = run("summarize", path, *options)
    assert ended.code == 0, ended.err
    return ended.out


def test_import_and_then_nothing_is_embedded(
    run, data_dir, folder, tmp_path, monkeypatch, embedded
):
    ended = run("vectors", "import", data_dir)
    assert ended.code == 0, ended.err
    assert machine_type() in ended.err
    told = json.loads(ended.out)
    assert told["partitions"] == 1
    assert told["added"] == contents(folder)[0].vectors > 30
    assert told["added"] + told["known"] == told["sentences"]
    assert told["sampled"] == min(vector_import.SAMPLE, told["sentences"])
    again = json.loads(run("vectors", "import", data_dir, "--json").out)
    assert (again["added"], again["known"]) == (0, again["sentences"])
    embedded.clear()
    with_store = summarize(run, tmp_path, "-k", "2")
    assert len(embedded) == 1, "only to find out which engine it is"
    monkeypatch.delenv("COVERSUMM_VECTOR_STORE_DIR")
    assert summarize(run, tmp_path, "-k", "2") == with_store


def test_summarize_keeps_what_it_embeds(run, folder, tmp_path, embedded):
    first = summarize(run, tmp_path, "-k", "3")
    assert len(embedded) > 1
    embedded.clear()
    assert summarize(run, tmp_path, "-k", "3") == first
    assert len(embedded) == 1


def test_the_sample_is_random(run, data_dir, folder, embedded, monkeypatch):
    monkeypatch.setattr(vector_import, "SAMPLE", 5)
    samples = []
    for _ in range(4):
        assert json.loads(run("vectors", "import", data_dir).out)["sampled"] == 5
        samples.append(tuple(embedded[-1]))
    assert {len(sample) for sample in samples} == {5}
    assert len(set(samples)) > 1


def test_a_worker_keeps_what_it_embeds(run, folder, worker, tmp_path, embedded):
    """Killed, it leaves a store with all of it; and its state and the store are of one engine."""
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in reviews()))
    assert run("send", path).code == 0
    entity, count = reviews()[0]["entity_id"], len(reviews())
    eventually(lambda: json.loads(run("inspect", entity).out or "{}").get("review_count") == count)
    with urllib.request.urlopen(
        f"http://127.0.0.1:{Settings.from_environment().web_port}/metrics"
    ) as page:
        metrics = dict(re.findall(r"^(coversumm_vector\S+) (\S+)$", page.read().decode(), re.M))
    made = contents(folder)[0].vectors
    assert float(metrics['coversumm_vector_store_lookups_total{result="miss"}']) == made > 30
    assert float(metrics['coversumm_vector_store_lookups_total{result="hit"}']) == 0
    assert "vector store" in (tmp_path / "worker.log").read_text()
    ended = run("summarize", path)
    assert ended.code == 0
    assert "another process writes the vector store" in ended.err
    assert len(embedded) == 1, "only to find out which engine it is"
    worker.kill()
    worker.wait()
    told = json.loads(run("vectors", "import", tmp_path / "data").out)
    assert (told["added"], told["known"]) == (0, told["sentences"])
    assert contents(folder)[0].vectors == made


def test_vectors_that_events_brought_are_left_out(run, data_dir, folder, engine):
    run("vectors", "import", data_dir)
    store = StoredVectors(folder, 2**24, engine_identity(engine))
    assert store.read(["It brought its vector."]) == {}
    assert list(store.read(["A new sentence."])) == ["A new sentence."]
    store.close()


def _with_another_vector(rows, dimension):
    """The same rows, sound ones, but for a bit of one vector."""
    key = next(
        key for key in rows if key.startswith(ENTITY) and parse_entity_key(key).kind == VECTORS
    )
    ordinals, data = decode_vectors(key, rows[key], dimension)
    vectors = np.frombuffer(data, "<i2").reshape(-1, dimension).copy()
    vectors[0, 7] ^= 1
    return {**rows, key: encode_vectors(key, ordinals, vectors)}


def test_a_state_of_another_machine_is_refused(run, data_dir, folder, rows, engine):
    """It has fewer sentences than a sample: the one bit of one of them that differs is found."""
    store_rows(data_dir, 0, _with_another_vector(rows, engine.dimension))
    ended = run("vectors", "import", data_dir)
    assert (ended.code, ended.out) == (2, "")
    assert "1 of " in ended.err
    assert "another type of machine" in ended.err
    assert contents_or_none(run) is None


def contents_or_none(run):
    ended = run("vectors", "info")
    return json.loads(ended.out)["vectors"] or None


def test_a_text_with_another_vector_in_the_store_is_refused(
    run, data_dir, folder, rows, engine, monkeypatch
):
    run("vectors", "import", data_dir)
    monkeypatch.setattr(vector_import, "SAMPLE", 0)
    store_rows(data_dir, 0, _with_another_vector(rows, engine.dimension))
    before = contents(folder)
    ended = run("vectors", "import", data_dir)
    assert (ended.code, ended.out) == (2, "")
    assert "two vectors" in ended.err
    assert contents(folder) == before


def test_a_state_of_another_model_is_refused(run, folder, tmp_path):
    from tests.cli.events import sample
    from tests.cli.stored import rows_after

    store_rows(tmp_path / "other", 0, rows_after(sample(3), 0))
    ended = run("vectors", "import", tmp_path / "other")
    assert (ended.code, ended.out) == (2, "")
    assert (
        "events that brought them with 3 dimensions, and COVERSUMM_EMBEDDER is all-MiniLM-L6-v2@"
        in ended.err
    )


def test_interrupted_it_goes_on_with_the_rest(run, data_dir, folder, monkeypatch):
    monkeypatch.setattr(vector_import, "BLOCK", 5)
    write, writes = StoredVectors.write, []

    def interrupted(store, vectors):
        writes.append(len(vectors))
        if len(writes) == 3:
            raise KeyboardInterrupt
        write(store, vectors)

    monkeypatch.setattr(StoredVectors, "write", interrupted)
    ended = run("vectors", "import", data_dir)
    assert (ended.code, ended.out) == (130, "")
    assert f"interrupted: {sum(writes[:2])} vectors were added" in ended.err
    told = json.loads(run("vectors", "import", data_dir).out)
    assert told["added"] + sum(writes[:2]) == contents(folder)[0].vectors


def test_a_store_that_another_process_writes(run, data_dir, folder, engine):
    writer = StoredVectors(folder, 2**24, engine_identity(engine))
    ended = run("vectors", "import", data_dir)
    writer.close()
    assert (ended.code, ended.out) == (2, "")
    assert "another process writes COVERSUMM_VECTOR_STORE_DIR" in ended.err


@pytest.mark.parametrize("command", [["info"], ["import", "."]])
def test_there_has_to_be_a_store(run, command):
    ended = run("vectors", *command)
    assert (ended.code, ended.out) == (2, "")
    assert "COVERSUMM_VECTOR_STORE_DIR is not set" in ended.err


def test_there_has_to_be_an_engine(run, data_dir, folder, monkeypatch):
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "none")
    ended = run("vectors", "import", data_dir)
    assert (ended.code, ended.out) == (2, "")
    assert "COVERSUMM_EMBEDDER is none" in ended.err


def test_a_directory_without_state(run, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    ended = run("vectors", "import", tmp_path / "empty")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no state of a worker" in ended.err


def test_info(run, data_dir, folder, terminal, engine):
    ended = run("vectors", "info")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no vector store" in ended.err
    run("vectors", "import", data_dir)
    told = json.loads(run("vectors", "info").out)
    (one,) = told["engines"]
    assert (one["model"], one["dimension"], one["machine"]) == (engine.model, 384, machine_type())
    assert one["vectors"] == told["vectors"] > 30
    assert 0 < told["bytes"] < told["max_bytes"] == 2 * 2**30
    terminal()
    shown = run("vectors", "info").out
    assert engine.model in shown
    assert f"{told['vectors']} vectors, " in shown
    assert f"of at most 2GiB, in {folder}" in shown


def test_import_on_a_terminal(run, data_dir, folder, terminal):
    terminal()
    shown = run("vectors", "import", data_dir).out
    assert " vectors added, " in shown
    assert "in 1 partition; " in shown


def test_a_copy_in_the_middle_of_a_commit_is_refused(run, data_dir, folder, rows):
    """Everything of the commit is there but its last row, which says how far the copy is."""
    applied = decode_applied(APPLIED, rows[APPLIED])
    behind = encode_applied(APPLIED, applied._replace(next_offset=applied.next_offset - 2))
    store_rows(data_dir, 0, {APPLIED: behind})
    ended = run("vectors", "import", data_dir)
    assert (ended.code, ended.out) == (2, "")
    assert "partition 0" in ended.err
    assert "in the middle of a commit" in ended.err
    assert contents_or_none(run) is None


def test_a_review_between_two_rows_of_a_commit_is_left_out(rows, engine):
    """A copy that follows its owner has the texts of an edit, and not its vectors yet."""
    from worker.state.snapshot import read_snapshots

    (snapshot,) = read_snapshots(MemoryRows(rows), engine.dimension)
    whole = list(vector_import.engines_own(snapshot))
    review = snapshot.ids[0].rpartition(b"#")[0]
    own = [identifier for identifier in snapshot.ids if identifier.startswith(review + b"#")]
    snapshot.texts[review + b"#999"] = "Its vector is still to come."
    assert len(list(vector_import.engines_own(snapshot))) == len(whole) - len(own)
