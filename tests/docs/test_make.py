"""`make help` lists every target in its group, and pre-commit runs the linters of `make check`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.build.render import ROOT
from tests.harness.patience import PATIENCE_SECONDS

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
GROUPS = ["Start", "Check", "Prove", "Measure", "Deploy", "Docs"]


def test_help_lists_every_target_in_its_group() -> None:
    done = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in GROUPS] == GROUPS
    listed = re.findall(r"^  make ([a-z-]+)", done.stdout, flags=re.M)
    assert sorted(listed) == sorted(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, flags=re.M))
    assert any(re.match(r"  make demo +\d+ s +\w", line) for line in lines)


@pytest.mark.parametrize("processes", [0, 2])
def test_the_last_lines_name_what_is_missing(processes: int) -> None:
    """Also where other processes than the last one collected the tests."""
    environment = {**os.environ, "PATH": str(Path(sys.executable).parent), "TESTS_NO_SKIP": "0"}
    tests = "tests/real_kafka/test_ranges.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", str(processes), tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    skipped, how, *_ = done.stdout.splitlines()[-3:]
    assert re.match(r"\d+ tests on a real Apache Kafka were skipped for want of: Java", skipped)
    assert how.startswith("Install on Debian or Ubuntu")


@pytest.mark.parametrize("code", [0, 3])
def test_setup_counts_packages_and_fails_with_pip(tmp_path: Path, code: int) -> None:
    """With a pip that answers at once."""
    pip = tmp_path / "pip"
    pip.write_text(
        "echo Collecting one; echo '  Downloading one.whl'; echo Collecting two\n"
        f"echo Installing collected packages: one, two; echo why >&2; exit {code}\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "pip-1.dist-info").mkdir()
    (tmp_path / "pip-1.dist-info" / "RECORD").write_text("pip/__init__.py,,\n")
    target = f"{tmp_path}/.runtime"
    done = _make(target, f"VENV={tmp_path}", f"PIP_SHOWN=sh {pip}", PYTHONPATH=str(tmp_path))
    assert (done.returncode == 0) == Path(target).exists() == (code == 0)
    assert done.stdout.startswith("1 of 2: the worker and its libraries")
    errors = done.stderr.splitlines()
    assert "  all 2 packages are here: unpacking them" in errors
    assert "why" in errors
    assert ("2 of 2: its language model" in done.stdout) == (code == 0)


@pytest.mark.parametrize("what", ["no pip", "half of pip"])
def test_a_venv_whose_making_was_interrupted_is_made_again(tmp_path: Path, what: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    if what != "no pip":
        (site,) = tmp_path.glob("lib/python*/site-packages")
        (site / "pip").mkdir()
        (site / "pip" / "__init__.py").write_text("")
    python = f"PYTHON={sys.executable}"
    done = _make(f"{tmp_path}/.runtime", f"VENV={tmp_path}", python, "PIP_SHOWN=true")
    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "bin" / "python", "-m", "pip", "--version"], check=True)


def _make(target: str, *chosen: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A target of the setup, which installs no model, and leaves the checkout's native module."""
    # Without what an outer `make test` passes on: its inner make says which folder it enters.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", target, *chosen, "PIP=true", "NATIVE_MODULE=none"],
        cwd=ROOT,
        env=env | more,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_pre_commit_runs_the_linters_of_the_checks() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    commands = [hook["entry"] for hook in repository["hooks"]]
    check = MAKEFILE.split("\ncheck: ")[1].split("\n\n")[0].replace("$(BIN)", ".venv/bin")
    linters = re.findall(r"@(.venv/bin/(?:ruff|mypy).*)", check)
    assert commands == linters
