"""The paper's evaluation: exact methods are exact on every stream, and its files are what they
promise.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.bench import streams
from tests.bench.judge import added, brute_force
from tests.bench.paper import experiments, theirs
from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.evaluation import Evaluation
from tests.bench.paper.measure import run_once
from tests.bench.paper.methods import METHODS, EachStep, Setting
from tests.bench.paper.plan import QUICK, Data, real, table_1
from tests.bench.paper.screen import Screen

pytestmark = pytest.mark.long

TINY = QUICK._replace(
    n=60,
    reviews=50,
    held_out=40,
    grid=(1e-4, 1e-3),
    dimensions=(4, 12),
    ks=(3, 6),
    modes=(1, 3),
    marks=(50, 200),
    others=50,
    stored=40,
    deletions=10,
)
EXACT = [name for name, method in METHODS.items() if method.exact and method.available]


def tied_reviews(sentences):
    """Stand-in for an embedder: few distinct vectors, many copies, many ties."""
    rng = np.random.default_rng(len(sentences))
    return rng.integers(-3, 4, size=(len(sentences), 3)).astype(np.int16)


STREAMS = {
    "uniform": lambda: streams.uniform(400, 20).vectors,
    "lda": lambda: streams.lda(400, 20).vectors,
    "adversarial": lambda: streams.drifting(400, 20).vectors,
    "mixture": lambda: streams.mixture(4, 400, 20).vectors,
    "copies": lambda: streams.clusters(400, 16).vectors,
    "ties": lambda: tied_reviews(range(400)),
}


class Swapped(BruteForce):
    """Right but for one event, after which the last two are in the wrong order."""

    def apply(self, step):
        ids = super().apply(step)
        return (*ids[:-2], ids[-1], ids[-2]) if self.n == 30 else ids


class Late(BruteForce):
    """Right but for one event that it does not hear of."""

    said: tuple[bytes, ...] = ()

    def apply(self, step):
        ids = super().apply(step)
        self.said = self.said if self.n == 2 else ids
        return self.said


def setting(vectors, k=20):
    return Setting(k, vectors.shape[1], float(np.ptp(vectors.astype(int))))


def accuracy(make, vectors, k=20):
    return run_once(make(setting(vectors, k)), added(vectors)).accuracy(brute_force(vectors, k))


# ---- exactness


@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_are_right_at_every_step(name, stream, k):
    assert accuracy(METHODS[name].make, STREAMS[stream](), k) == 100.0


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("broken", [Swapped, Late])
def test_one_wrong_step_is_seen(broken, stream):
    assert accuracy(lambda of: EachStep(broken(of.k, of.dimension)), STREAMS[stream]()) == 99.75


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_methods_are_right_after_every_deletion(name, stream):
    vectors = STREAMS[stream]()
    rows = np.random.default_rng(1).permutation(len(vectors)).tolist()
    row = experiments.deletions(
        METHODS[name].make(setting(vectors)), vectors, rows[:-1], 20, 60.0, lambda _: None
    )
    assert row["accuracy"] == 100.0
    assert row["deletions"] == 399
    if not name.startswith("exact"):
        assert row["reservoir_searches"] == 399


def test_the_methods_are_those_of_the_papers_table_and_ours():
    assert list(METHODS) == [
        "brute-force",
        "naive-cover-tree",
        "naive-faiss",
        "coversumm-knn-range",
        "coversumm-reservoir",
        "coversumm-lazy",
        "naive-hnsw",
        "coversumm-random",
        "coversumm-decay",
        "exact",
    ]
    assert {name for name, method in METHODS.items() if method.exact} == {
        "brute-force",
        "naive-cover-tree",
        "naive-faiss",
        "exact",
    }
    for column in theirs.TABLE_1.values():
        assert set(column) == set(METHODS) - {"exact"}
    assert set(theirs.ADVERSARIAL) < set(METHODS)


# ---- measuring


# ---- what grows


# ---- the whole


@pytest.fixture
def screen():
    console = Console(record=True, width=200, force_terminal=False)
    return Screen(console)


@pytest.fixture
def evaluated(tmp_path, monkeypatch, screen):
    monkeypatch.setattr(streams, "embedded", tied_reviews)
    return lambda: Evaluation(TINY, streams.BUNDLED, screen, tmp_path).run()


def test_the_whole_evaluation(evaluated, tmp_path, screen):
    assert evaluated() == 0
    written = sorted(file.name for file in tmp_path.iterdir())
    figures = ("deletion", "growth", "modes", "reservoir", "searches", "time")
    drawn = [f"paper-quick-{name}.png" for name in figures] if find_spec("matplotlib") else []
    assert written == [*drawn, "paper-quick.json"]
    for name in written[:-1]:
        file = tmp_path / name
        assert file.read_bytes()[:4] == b"\x89PNG"
        assert file.stat().st_size < 80_000
    text = (tmp_path / "paper-quick.json").read_text()
    found = json.loads(text)
    assert found["command"] == "make paper-quick"
    assert found["machine"]["cores"] >= 1
    assert str(Path.cwd()) not in text
    assert str(tmp_path) not in text
    check_rows(found["rows"])
    assert {row["stream"]: row["alpha"] for row in found["parameters"]}.keys() == {
        *("uniform", "lda", "reviews", "adversarial", "mixture-1", "mixture-3")
    }
    assert {row["accuracy"] for row in found["deletion"] if row["exact"]} == {100.0}
    shown = screen.console.export_text()
    assert theirs.TABLE_1_SOURCE in shown
    assert theirs.ADVERSARIAL_SOURCE in shown
    assert "theirs" not in text


def check_rows(rows):
    kinds = {
        "stream": str,
        "method": str,
        "exact": bool,
        "n": int,
        "dimension": int,
        "k": int,
        "seconds": float,
        "us_per_event": float,
        "accuracy": float,
        "reservoir_searches": int,
    }
    for row in rows:
        assert {key: type(value) for key, value in row.items()} == kinds
        assert row["accuracy"] == 100.0 or not row["exact"]
        assert 0 <= row["accuracy"] <= 100
        assert row["n"] == (50 if row["stream"] == "reviews" else 60)
    here = [name for name in METHODS if METHODS[name].available]
    for stream in ("uniform", "lda", "reviews", "adversarial"):
        assert [row["method"] for row in rows if row["stream"] == stream] == here


# ---- data and tables


def test_one_entity_is_its_own_held_out_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "embedded", tied_reviews)
    file = tmp_path / "one.jsonl"
    file.write_text(
        "".join(json.dumps({"entity_id": "e", "text": f"Nice {i}."}) + "\n" for i in range(90))
    )
    data = real(file, TINY)
    assert (data.held_out == data.vectors[:40]).all()
    assert "its own first 40 sentences" in data.held_out_is
    with file.open("a") as out:
        out.write(json.dumps({"entity_id": "f", "text": "Other."}) + "\n")
    assert len(real(file, TINY).held_out) == 1


def test_parameters_are_found_on_another_stream():
    for name, make in table_1(TINY, streams.BUNDLED).items():
        if name != "reviews":
            data = make()
            assert data.held_out.shape == data.vectors.shape
            assert (data.held_out != data.vectors).any()
    assert (
        Data("", np.zeros((1, 1)), np.array([[-32768, 5], [32767, 0]], np.int16), "").width
        == 65535.0
    )
