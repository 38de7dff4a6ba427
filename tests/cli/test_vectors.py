"""The vector store as commands use it: what one has embedded, none embeds again."""

import gzip
import json
import re
import urllib.request
from pathlib import Path

import pytest

from tests.harness.eventually import eventually
from worker.settings import Settings
from worker.storage.vectors import contents
from worker.text.identity import machine_type
from worker.text.minilm import MODEL
from worker.text.onnx import OnnxEngine

REVIEWS = Path(__file__).parents[2] / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
COUNT = 12


def reviews():
    with gzip.open(REVIEWS, "rt", encoding="utf-8") as lines:
        return [json.loads(next(lines)) for _ in range(COUNT)]


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
    path.write_text("".join(json.dumps(review) + "\n" for review in reviews()))
    ended = run("summarize", path, *options)
    assert ended.code == 0, ended.err
    return ended.out


def test_summarize_keeps_what_it_embeds(run, folder, tmp_path, embedded):
    first = summarize(run, tmp_path, "-k", "3")
    assert len(embedded) > 1
    embedded.clear()
    assert summarize(run, tmp_path, "-k", "3") == first
    assert len(embedded) == 1


def test_a_worker_keeps_what_it_embeds(run, folder, worker, tmp_path, embedded):
    """Killed, it leaves a store with all of it; and its state and the store are of one engine."""
    path = tmp_path / "reviews.jsonl"
    path.write_text("".join(json.dumps(review) + "\n" for review in reviews()))
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
    embedded.clear()
    assert run("summarize", path).code == 0
    assert len(embedded) == 1
    assert contents(folder)[0].vectors == made


def test_there_has_to_be_a_store(run):
    ended = run("vectors", "info")
    assert (ended.code, ended.out) == (2, "")
    assert "COVERSUMM_VECTOR_STORE_DIR is not set" in ended.err


def test_info(run, folder, tmp_path, terminal):
    ended = run("vectors", "info")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no vector store" in ended.err
    summarize(run, tmp_path)
    report = json.loads(run("vectors", "info").out)
    (engine,) = report["engines"]
    assert (engine["model"], engine["dimension"], engine["machine"]) == (MODEL, 384, machine_type())
    assert engine["vectors"] == report["vectors"] > 30
    assert 0 < report["bytes"] < report["max_bytes"] == 2 * 2**30
    terminal()
    shown = run("vectors", "info").out
    assert MODEL in shown
    assert f"{report['vectors']} vectors, " in shown
    assert f"of at most 2GiB, in {folder}" in shown
