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
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")
LOCKS = ["requirements.lock", "requirements-dev.lock"]
IMAGE_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2", "extra": ""}
TOOLS = Path(sys.executable).parent


def _name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(*files: str) -> dict[str, tuple[str, list[str]]]:
    """Package -> version and hashes of files of pins, each of which has a hash at least."""
    text = "".join((ROOT / file).read_text() for file in files).replace(" \\\n    ", " ")
    found = [PIN.fullmatch(line) for line in text.splitlines() if not line.startswith("#")]
    assert all(found)
    return {_name(match[1]): (match[2], match[3].split()) for match in found if match}


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


@pytest.mark.parametrize("file", ["requirements.txt", *(f"extras/{extra}.txt" for extra in EXTRAS)])
def test_the_image_and_its_variants_hold_files_of_the_locks(file: str) -> None:
    pinned, locked = _pins(f"deploy/image/{file}"), _pins(*LOCKS)
    for name, (version, hashes) in pinned.items():
        assert (version, hashes[0] in locked[name][1]) == (locked[name][0], True), name
    assert _pins("deploy/image/sbom-requirements.txt")


def test_setup_installs_what_the_worker_its_build_and_its_model_need_and_nothing_else() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    direct = [*PROJECT["optional-dependencies"]["language"], *build]
    needed = _needed("coversumm-worker", {_name(Requirement(each).name) for each in direct})
    for requirement in direct:
        needed |= _needed(Requirement(requirement).name, set())
    locked = _pins("requirements.lock")
    assert locked.keys() == needed | {PACKAGE.partition("==")[0]}
    for requirement in map(Requirement, [*PROJECT["dependencies"], *direct, PACKAGE]):
        assert requirement.specifier.contains(locked[_name(requirement.name)][0]), requirement


def test_the_image_holds_all_that_the_worker_needs_and_nothing_else() -> None:
    assert set(_pins("deploy/image/requirements.txt")) == _needed("coversumm-worker", set())


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_variant_holds_all_that_its_extra_needs(extra: str) -> None:
    pinned = _pins(f"deploy/image/extras/{extra}.txt")
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
    name = PACKAGE.partition("==")[0]
    assert f"grep -A 1 '^{name}=='" in (ROOT / "deploy" / "image" / "build").read_text()
    assert name in DOCKERFILE
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
