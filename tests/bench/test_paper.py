"""The paper's evaluation: exact methods are exact on every stream, and its files are what they
promise.
"""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.bench import streams
from tests.bench.judge import added, brute_force
from tests.bench.paper import __main__ as command
from tests.bench.paper import evaluation, experiments, measure, record, tables, theirs
from tests.bench.paper.algorithms.brute_force import BruteForce
from tests.bench.paper.evaluation import Evaluation
from tests.bench.paper.measure import Tried, choose, run, run_once, search
from tests.bench.paper.methods import METHODS, EachStep, Setting
from tests.bench.paper.plan import QUICK, Data, real, table_1
from tests.bench.paper.screen import Screen, number, share
from worker.coversumm import EntityCore

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


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].available])
def test_every_method_counts_what_it_searches(name):
    vectors = streams.drifting(1_000, 20).vectors
    contender = METHODS[name].make(setting(vectors))
    outcome = run_once(contender, added(vectors))
    assert outcome.searches == contender.reservoir_searches > 0
    assert len(outcome.said) == 1_000


# ---- measuring


class Clock:
    """Processor time that moves only when a contender says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(measure.time, "process_time", lambda: self.now)


class Fake:
    reservoir_searches = 0
    reservoir_size = 0

    def __init__(self, clock, oracle, cost=0.01, wrong=0):
        self.clock, self.answers, self.cost, self.wrong = clock, list(oracle), cost, wrong
        self.calls = []

    def take(self, steps):
        self.calls.append(len(steps))
        self.clock.now += self.cost * len(steps)
        said = [self.answers.pop(0) for _ in steps]
        for at in range(min(self.wrong, len(said))):
            said[at] = ()
        self.wrong = max(self.wrong - len(said), 0)
        self.reservoir_searches += 2
        return said


@pytest.fixture
def fakes(monkeypatch):
    clock = Clock(monkeypatch)
    vectors = STREAMS["uniform"]()[:120]
    oracle = brute_force(vectors, 3)
    return lambda **options: Fake(clock, oracle, **options), added(vectors), oracle


def test_a_run_is_timed_between_its_chunks(fakes):
    make, steps, oracle = fakes
    done = []
    outcome = run_once(make(wrong=3), steps, None, done.append)
    assert done == [50, 100, 120]
    assert outcome.seconds == pytest.approx(1.2)
    assert outcome.us_per_event == pytest.approx(10_000)
    assert outcome.searches == 6
    assert outcome.accuracy(oracle) == 97.5
    assert [(n, pytest.approx(s)) for n, s in outcome.curve] == [(50, 0.5), (100, 1.0), (120, 1.2)]


def test_a_budget_ends_a_run(fakes):
    make, steps, oracle = fakes
    outcome = run_once(make(wrong=1), steps, 0.6)
    assert len(outcome.said) == 100
    assert outcome.accuracy(oracle) == 99.0  # of those it reached
    assert outcome.us_per_event == pytest.approx(10_000)


def test_the_best_of_three_unless_one_takes_long(fakes):
    make, steps, _ = fakes
    costs = [0.003, 0.001, 0.002]
    made = []
    assert run(
        lambda: made.append(1) or make(cost=costs[len(made) - 1]), steps
    ).seconds == pytest.approx(0.12)
    assert len(made) == 3
    made.clear()
    assert run(lambda: made.append(1) or make(cost=0.01), steps).seconds == pytest.approx(1.2)
    assert len(made) == 1


def test_the_grid_takes_the_fastest_that_is_always_right(fakes):
    make, steps, oracle = fakes
    cost = {1.0: 0.004, 2.0: 0.002, 3.0: 0.003, 4.0: 0.001}
    choice = search(lambda v: make(cost=cost[v], wrong=int(v == 4.0)), list(cost), steps, oracle)
    assert choice.value == 2.0
    assert [(t.value, t.events) for t in choice.tried] == [
        (1.0, 120),
        (2.0, 120),
        (3.0, 120),
        (4.0, 120),
    ]
    assert choice.tried[3].accuracy == 99.1667


def test_the_grid_takes_the_most_accurate_else():
    assert (
        choose([Tried(1, 90.0, 0.1, 10), Tried(2, 99.9, 5.0, 10), Tried(3, 99.8, 0.1, 10)]).value
        == 2
    )


def test_the_grid_compares_what_was_cut_short_by_the_event():
    assert choose([Tried(1, 100.0, 1.0, 10), Tried(2, 100.0, 1.5, 100)]).value == 2


# ---- what grows


def test_curves_keep_their_ends():
    curve = [(t, t * t) for t in range(1, 1_001)]
    thin = experiments.thinned(curve)
    assert len(thin) == experiments.POINTS
    assert (thin[0], thin[-1]) == (curve[0], curve[-1])
    assert experiments.thinned(curve[:5]) == curve[:5]


def test_the_time_of_an_event_is_that_of_the_last_ones(fakes):
    outcome = measure.Outcome(9.0, [], 0, [(50, 1.0), (100, 3.0), (150, 9.0)])
    assert experiments.from_curve("some", outcome, (100, 1_000)) == [
        {"method": "some", "n": 100, "events": 50, "us_per_event": 40_000.0}
    ]


@pytest.mark.parametrize("with_faiss", [True, False])
def test_growth_measures_every_mark(with_faiss, monkeypatch):
    if not with_faiss:

        def missing(*_):
            raise ImportError

        monkeypatch.setattr(experiments, "library", missing)
    indexes = []

    class Kept(EntityCore):
        def __init__(self, k, dimension, index):
            super().__init__(k, dimension, index)
            indexes.append(index)

    monkeypatch.setattr(experiments, "EntityCore", Kept)
    vectors = streams.uniform_blocks(3_000, 6)
    done = []
    ours = experiments.grow_ours(vectors, (100, 3_000), 3, done.append)
    assert [(row["method"], row["n"], row["events"]) for row in ours] == [
        ("exact", 100, 50),
        ("exact, amortised", 100, 100),
        ("exact", 3_000, 1_000),
        ("exact, amortised", 3_000, 2_900),
    ]
    assert indexes[0].totals().total.tolist() == vectors.sum(axis=0, dtype=int).tolist()
    flat = experiments.grow_flat(vectors, (100, 3_000), 3, done.append)
    assert [(row["n"], row["events"]) for row in flat] == [(100, 50), (3_000, 300)]
    if not with_faiss:
        assert {row["method"] for row in flat} == {"flat (NumPy)"}
    assert all(row["us_per_event"] > 0 for row in (*ours, *flat))


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


def test_the_evaluation_fails_if_an_exact_method_is_wrong_once(
    evaluated, tmp_path, screen, monkeypatch
):
    monkeypatch.setattr(evaluation.Plots, "__init__", without_matplotlib)
    made = METHODS["exact"]._replace(make=lambda of: EachStep(Swapped(of.k, of.dimension)))
    monkeypatch.setitem(METHODS, "exact", made)
    assert evaluated() == 1
    assert "exact is wrong: 98.3 % on uniform" in screen.console.export_text()
    rows = json.loads((tmp_path / "paper-quick.json").read_text())["rows"]
    assert {row["accuracy"] for row in rows if row["method"] == "exact"} <= {98.3333, 98.0}


def test_a_missing_library_is_a_row_left_out_and_a_line(evaluated, tmp_path, screen, monkeypatch):
    for name in ("naive-faiss", "naive-hnsw"):
        monkeypatch.setitem(METHODS, name, METHODS[name]._replace(needs="no_such_module"))
    monkeypatch.setattr(evaluation.Plots, "__init__", without_matplotlib)
    assert evaluated() == 0
    shown = screen.console.export_text()
    assert "naive-faiss left out: no_such_module is not installed (pip install faiss-cpu)" in shown
    assert "no figures: matplotlib is not installed" in shown
    assert [file.name for file in tmp_path.iterdir()] == ["paper-quick.json"]
    rows = json.loads((tmp_path / "paper-quick.json").read_text())["rows"]
    assert not {row["method"] for row in rows} & {"naive-faiss", "naive-hnsw"}


def without_matplotlib(self, folder, prefix):
    self.able, self.written = False, []


def test_graphgrove_is_measured_where_there_is_one(evaluated, tmp_path, screen, monkeypatch):
    def found(python, vectors, k, *, budget):
        assert python == "a python"
        nearest = brute_force(vectors[:50], k)[-1].tolist()
        return {
            "graphgrove": "0.0.11",
            "steps": 50,
            "insert_seconds": [0.01] * 50,
            "knn_seconds": [0.03] * 50,
            "nearest": nearest if vectors.shape[1] == 3 else nearest[::-1],
        }

    monkeypatch.setattr(evaluation.Plots, "__init__", without_matplotlib)
    monkeypatch.setattr(
        evaluation.graphgrove_real, "find_python", lambda: ("a python", "found one")
    )
    monkeypatch.setattr(evaluation.graphgrove_real, "measure", found)
    assert evaluated() == 0
    rows = json.loads((tmp_path / "paper-quick.json").read_text())["graphgrove"]
    assert {row["stream"]: row["last_right"] for row in rows} == {
        "uniform": False,
        "lda": False,
        "reviews": True,
        "adversarial": False,
    }
    assert {(row["seconds"], row["us_per_event"], row["n"]) for row in rows} == {
        (2.0, 40_000.0, 50)
    }
    assert "found one" in screen.console.export_text()


def test_a_stopped_run_records_nothing(evaluated, tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluation, "_deletion", stop)
    stop.__name__ = "_deletion"
    with pytest.raises(KeyboardInterrupt):
        evaluated()
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(Evaluation, "run", stop)
    assert command.main(["--quick"]) == 130
    assert "nothing was recorded" in capsys.readouterr().out


def test_the_command_names_no_path(tmp_path, screen):
    file = tmp_path / "my_reviews.jsonl.gz"
    of = Evaluation(TINY, file, screen, tmp_path)
    assert of.command == "make paper-quick DATA=my_reviews.jsonl.gz"
    assert of.name == "paper-quick_my_reviews"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "paper.json"
    record.write(file, {"rows": [{"a": 1}, {"a": 2}], "none": [], "machine": {"cores": 2}})
    assert json.loads(file.read_text()) == {
        "rows": [{"a": 1}, {"a": 2}],
        "none": [],
        "machine": {"cores": 2},
    }
    before = file.read_text()

    def stop(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        record.write(file, {"rows": []})
    assert [of.name for of in tmp_path.iterdir()] == ["paper.json"]
    assert file.read_text() == before


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


def test_short_runs_say_so_and_figures_of_theirs_are_marked():
    rows = [
        record.row(
            stream,
            method,
            exact=True,
            n=n,
            dimension=3,
            k=2,
            seconds=1.5,
            accuracy=99.9999,
            searches=7,
        )
        for stream, method, n in (
            ("uniform", "brute-force", 1_234),
            ("uniform", "exact", 2_000),
            ("adversarial", "exact", 2_000),
        )
    ]
    console = Console(record=True, width=150)
    Screen(console).show(tables.runtime(rows))
    shown = console.export_text()
    assert re.search(r"brute-force +1\.50 \(n=1,234\) +<100 +28\.2 +100\.0", shown)
    assert re.search(r" exact +1\.50 +<100 *\n", shown)
    assert shown.count("theirs") == 4  # two columns, and the source under the table
    assert theirs.TABLE_1_SOURCE in shown


def test_numbers_for_people():
    assert [number(v) for v in (1234.5, 12.34, 1.234, 0.01234, None)] == [
        "1,234",
        "12.3",
        "1.23",
        "0.012",
        "",
    ]
    assert [share(v) for v in (100.0, 99.9999, 99.95, 99.9, 12.34, None)] == [
        *("100.0", "<100", "99.95", "99.90", "12.3", "")
    ]
