"""What the core promises its users besides rankings: NumPy alone, and clear refusals."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.coversumm.scripts import adds
from worker.coversumm import EntityCore, FlatIndex, Points, Step, VectorError, no_points

FOREIGN = """
import sys
before = set(sys.modules)
import numpy
theirs = set(sys.modules)
import worker.coversumm, worker.coversumm.index.flat
tops = {name.partition(".")[0] for name in set(sys.modules) - theirs}
loaded = tops - set(sys.stdlib_module_names)
ours = [name for name in sys.modules if name.startswith("worker.")]
project = {name for name in ours if not name.startswith("worker.coversumm")}
print(loaded, project)
assert loaded <= {"worker", "numpy"} and not project
"""


def test_imports_numpy_alone() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FOREIGN], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((1, 2)),
        np.ones((1, 3), np.int16),
        np.ones((2, 2), np.int16),
        np.ones(2, np.int16),
        np.ones((1, 2), np.int32),
        np.ones((1, 2), np.int8),
    ],
)
@pytest.mark.parametrize("before", [0, 30])
def test_refuses_vectors_of_another_kind(vectors: np.ndarray, before: int) -> None:
    core = EntityCore(2, 2, FlatIndex(2))
    steps = [*adds(np.ones((before, 2), np.int16)), Step(no_points(2), Points([b"a"], vectors))]
    with pytest.raises(VectorError, match="int16"):
        core.apply(steps)
