"""What can be said of the image without building it: the Dockerfile by its linter, and that pins
and paths are this project's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.harness.patience import PATIENCE_SECONDS
from worker.text.minilm import PACKAGE

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = [
    ROOT / "deploy" / "Dockerfile",
    ROOT / "deploy" / "image" / "base.Dockerfile",
    ROOT / "deploy" / "image" / "extras.Dockerfile",
]
DOCKERFILE, _, VARIANTS = (file.read_text() for file in DOCKERFILES)
EXTRAS = sorted(file.stem for file in (ROOT / "deploy" / "image" / "extras").iterdir())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: --hash=sha256:([0-9a-f]{64}))?")
IMAGE_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2", "extra": ""}
TOOLS = Path(sys.executable).parent


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(file: str) -> dict[str, tuple[str, str]]:
    """Package -> version and hash of a file of pins."""
    lines = (line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#"))
    found = [PIN.fullmatch(line) for line in lines]
    assert all(found)
    return {_name(match[1]): (match[2], match[3] or "") for match in found if match}


def _needed(package: str, found: set[str]) -> set[str]:
    """Names of all that a package needs on the image's Python, itself not, by what is installed
    here.
    """
    needs: list[str] = []
    # what only that Python needs is not here on another, and needs nothing itself
    with suppress(PackageNotFoundError):
        needs = requires(package) or []
    for requirement in map(Requirement, needs):
        if (requirement.marker is None or requirement.marker.evaluate(IMAGE_PYTHON)) and _name(
            requirement.name
        ) not in found:
            found.add(_name(requirement.name))
            _needed(requirement.name, found)
    return found


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    done = subprocess.run(
        [TOOLS / "hadolint", "--no-color", *DOCKERFILES],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_holds_the_locked_versions_each_with_its_hash() -> None:
    pinned, locked = _pins("deploy/image/requirements.txt"), _pins("requirements.lock")
    assert {name: version for name, (version, _) in pinned.items()} == {
        name: locked[name][0] for name in pinned
    }
    assert all(digest for _, digest in pinned.values())
    assert all(digest for _, digest in _pins("deploy/image/sbom-requirements.txt").values())


def test_the_image_holds_all_that_the_worker_needs_and_nothing_else() -> None:
    assert set(_pins("deploy/image/requirements.txt")) == _needed("coversumm-worker", set())


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_variant_holds_the_locked_versions_of_all_that_its_extra_needs(extra: str) -> None:
    pinned, locked = _pins(f"deploy/image/extras/{extra}.txt"), _pins("requirements.lock")
    assert {name: version for name, (version, _) in pinned.items()} == {
        name: locked[name][0] for name in pinned
    }
    assert all(digest for _, digest in pinned.values())
    needed = {
        Requirement(requirement).name for requirement in PROJECT["optional-dependencies"][extra]
    }
    for package in sorted(needed):
        needed |= _needed(package, set())
    everywhere = set(_pins("deploy/image/requirements.txt"))
    assert set(pinned) == set(map(_name, needed)) - everywhere - {"openvino-telemetry"}


def test_the_extras_that_the_build_names_have_their_pins() -> None:
    build = (ROOT / "deploy" / "image" / "build").read_text()
    assert f"these extras: {', '.join(EXTRAS)};" in build
    assert set(EXTRAS) == PROJECT["optional-dependencies"].keys() - {
        "bench",
        "quality",
        "sentence-transformers",
    }


def test_a_wrong_extra_is_refused_before_anything_is_built() -> None:
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build"],
        env={**os.environ, "EXTRAS": "avro parket"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    names = ", ".join(EXTRAS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"EXTRAS: parket is none of {names}\n"


def test_the_model_and_the_python_are_those_of_the_project() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"MODEL := {PACKAGE}\n" in makefile  # what deploy/image/build takes
    assert PACKAGE.split("==")[0] in DOCKERFILE
    pythons = set(re.findall(r"python(3\.\d+)", DOCKERFILE + VARIANTS))
    assert len(pythons) == 1
    assert f"Programming Language :: Python :: {pythons.pop()}" in PROJECT["classifiers"]
    assert f'image.licenses="{PROJECT["license"]}"' in DOCKERFILE


def test_it_runs_as_a_number_stops_in_order_and_needs_no_shell() -> None:
    final = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert "\nUSER 10001:10001\n" in final
    assert "\nSTOPSIGNAL SIGTERM\n" in final
    assert not re.findall(r"^(?:RUN|CMD|ENTRYPOINT) (?!\[)", final, flags=re.M)


def test_the_build_sees_nothing_but_what_it_needs() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    shown = {line[1:] for line in ignored if line.startswith("!")}
    taken = set(re.findall(r"source=((?:build|deploy)/[^, ]+)", DOCKERFILE + VARIANTS))
    assert ignored[1] == "*"
    assert shown == taken | {"build/image/rootfs"}
    assert all((ROOT / path).exists() for path in shown if path.startswith("deploy/"))
