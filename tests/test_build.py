"""Builds of one version differ by their commit: in a checkout, in a wheel, without either."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from worker import COMMIT_FILE, __version__, build, commit_of

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")


def test_a_checkout_names_its_commit() -> None:
    assert re.fullmatch(rf"{re.escape(__version__)}\+[0-9a-f]{{10,}}(-modified)?", build())


def test_a_wheel_has_the_commit_and_a_copy_of_it_elsewhere_names_it(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "COMPILE_WORKER": "0"}, check=True, timeout=120
    )
    built = tmp_path / "worker"
    assert (built / COMMIT_FILE).read_text().strip() == commit_of(ROOT)
    asked = [sys.executable, "-c", "import worker; print(worker.build())"]

    def answer() -> str:
        done = subprocess.run(
            asked,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    assert answer() == f"{__version__}+{commit_of(ROOT)}"
    (built / COMMIT_FILE).unlink()
    assert answer() == __version__
    shutil.rmtree(built)


def test_a_wheel_without_native_code_is_one_of_python_alone(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "build")]
    command += ["bdist_wheel", "--bdist-dir", str(tmp_path / "wheel"), "--dist-dir", str(tmp_path)]
    environment = {**os.environ, "CARGO": str(tmp_path / "none"), "PATH": "/usr/bin:/bin"}
    environment.pop("COMPILE_WORKER", None)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, timeout=300, capture_output=True, text=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"coversumm_worker-{__version__}-py3-none-any.whl"
    assert "this wheel has no native code" in done.stderr
