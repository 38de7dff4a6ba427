"""The real graphgrove, measured in a process of its own: its wheels are for CPython 3.6 to 3.8,
which the worker is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "COVERSUMM_GRAPHGROVE_PYTHON"
ON_PATH = ("python3.8", "python3.7")
SCRIPT = Path(__file__).with_name("graphgrove_process.py")
INSTALL = (
    "python3.8 -m venv FOLDER && FOLDER/bin/pip install graphgrove==0.0.11, and "
    f"{VARIABLE}=FOLDER/bin/python"
)
_PROBE = (
    "import graphgrove, sys; from graphgrove.sgtree import NNS_L2; "
    "print(graphgrove.__version__, sys.version.split()[0])"
)


def find_python() -> tuple[str | None, str]:
    """A CPython with the real library, or None; and a sentence that says what was found or what to
    do.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found, what = _probe(named)
        if found:
            return named, what
        return None, f"graphgrove is not measured: {VARIABLE}={named}: {what}"
    for name in ON_PATH:
        path = shutil.which(name)
        if path is not None:
            found, what = _probe(path)
            if found:
                return path, what
    return (
        None,
        f"graphgrove is not measured: neither {' nor '.join(ON_PATH)} has it. To have it: "
        f"{INSTALL}",
    )


def _probe(python: str) -> tuple[bool, str]:
    try:
        run = subprocess.run(
            [python, "-E", "-c", _PROBE], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    if run.returncode:
        return False, _last_line(run.stderr)
    version, python_version = run.stdout.split()
    return True, f"graphgrove {version} on CPython {python_version}"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["without a word"])[-1]


def measure(python: str, vectors: NDArray[Any], k: int, *, budget: float) -> dict[str, Any]:
    """What `graphgrove_process.py` prints: seconds of every step's insert and k-NN, as many steps
    as `budget` allows.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        np.save(file, np.ascontiguousarray(vectors, np.float32))
        run = subprocess.run(
            [python, "-E", str(SCRIPT), str(file), str(k), str(budget)],
            capture_output=True,
            text=True,
            timeout=4 * budget + 120,
        )
    if run.returncode:
        raise RuntimeError(
            f"graphgrove in {python} ended with {run.returncode}: {_last_line(run.stderr)}"
        )
    result: dict[str, Any] = json.loads(run.stdout)
    return result
