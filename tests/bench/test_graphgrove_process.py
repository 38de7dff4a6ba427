"""The process that measures graphgrove for `make paper`, in a Python that has the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bench.paper import graphgrove_real
from tests.coversumm.index import libraries
from tests.coversumm.index.libraries import LIBRARIES
from tests.harness.patience import PATIENCE_SECONDS


def _pretend(folder: Path, name: str, body: str) -> Path:
    """An executable that runs this Python with a module `graphgrove` made of these lines."""
    package = folder / "lib" / "graphgrove"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.0.11"\n')
    (package / "sgtree.py").write_text(body)
    path = folder / name
    path.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        f"arguments = [one for one in sys.argv[1:] if one != '-E']\n"
        f"env = {{'PYTHONPATH': {str(folder / 'lib') + ':' + str(Path.cwd())!r}}}\n"
        "sys.exit(subprocess.run([sys.executable, *arguments], env=env).returncode)\n"
    )
    path.chmod(0o755)
    return path


def test_a_python_with_the_library_is_found_by_variable_and_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(graphgrove_real.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    python, why = graphgrove_real.find_python()
    assert python is None
    assert "neither python3.8 nor python3.7 has it" in why
    assert "pip install graphgrove==0.0.11" in why
    (tmp_path / "with").mkdir()
    good = _pretend(tmp_path / "with", "python3.7", "class NNS_L2: pass\n")
    (tmp_path / "without").mkdir()
    bad = _pretend(tmp_path / "without", "python3.8", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'without'}:{tmp_path / 'with'}")
    assert graphgrove_real.find_python()[0] == str(good)
    assert graphgrove_real.find_python()[1].startswith("graphgrove 0.0.11 on CPython 3.")
    monkeypatch.setenv(graphgrove_real.VARIABLE, str(bad))
    python, why = graphgrove_real.find_python()
    assert python is None
    assert f"{graphgrove_real.VARIABLE}={bad}: ImportError: cannot import name 'NNS_L2'" in why
    monkeypatch.setenv(graphgrove_real.VARIABLE, str(tmp_path / "nothing"))
    assert "No such file" in graphgrove_real.find_python()[1]


def _rounds(vectors: NDArray[np.float32], k: int) -> list[int]:
    """The k nearest to the centroid of all."""
    far = np.linalg.norm(vectors - vectors.mean(axis=0, dtype=np.float64), axis=1)
    return list(np.argsort(far)[:k])


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_process_measures_every_step(name: str, tmp_path: Path) -> None:
    if name == "real":
        assert libraries.PYTHON is not None
        python = libraries.PYTHON
    else:
        body = "from tests.coversumm.index.libraries import StandIn as NNS_L2\n"
        python = str(_pretend(tmp_path, "python", body))
    vectors = np.random.default_rng(3).normal(size=(60, 6)).astype(np.float32)
    result = graphgrove_real.measure(python, vectors, 5, budget=60)
    assert result["graphgrove"] == "0.0.11"
    assert result["steps"] == len(result["insert_seconds"]) == len(result["knn_seconds"]) == 60
    assert min(result["insert_seconds"] + result["knn_seconds"]) > 0
    assert result["dropped"] == 0
    assert sorted(result["nearest"]) == sorted(_rounds(vectors, 5))
    assert graphgrove_real.measure(python, vectors, 5, budget=0)["steps"] == 1


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    python = _pretend(
        tmp_path, "python", "class NNS_L2:\n  def from_matrix(points, use_multi_core): 1 / 0\n"
    )
    with pytest.raises(RuntimeError, match="ended with 1: ZeroDivisionError: division by zero"):
        graphgrove_real.measure(str(python), np.ones((3, 2)), 2, budget=1)


def test_what_the_library_gets_wrong(tmp_path: Path) -> None:
    """The reason for the frame, on the real library: with its root raised it misses the nearest
    point.
    """
    if libraries.PYTHON is None:
        assert "graphgrove is not measured" in libraries.WHY
        return
    code = (
        "import json, os, sys, numpy as np\n"
        "out = os.fdopen(os.dup(1), 'w'); os.dup2(2, 1)\n"
        "from graphgrove.sgtree import NNS_L2\n"
        "tree = NNS_L2.from_matrix(np.array([[0, 0], [10, 0], [-10, 0], [0, -9]], np.float32), "
        "use_multi_core=0)\n"
        "tree.insert(np.array([[0, 10.5]], np.float32), np.array([4]), use_multi_core=0)\n"
        "tree.insert(np.array([[0, 14.9]], np.float32), np.array([5]), use_multi_core=0)\n"
        "ids, _ = tree.kNearestNeighbours(np.array([[0, 12.5]], np.float32), 1, use_multi_core=1)\n"
        "one = np.array([1, 1], np.float32); tree.insert(one, 77)\n"
        "last, _ = tree.kNearestNeighbours(one[None], 1, use_multi_core=1)\n"
        "json.dump([int(ids[0, 0]), int(last[0, 0]), tree.remove(one)], out)\n"
    )
    run = subprocess.run(
        [libraries.PYTHON, "-E", "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert json.loads(run.stdout) == [5, 1, False], "the nearest is 4, the id was 77"
