"""A release, made twice in two clones of this commit: every file has the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.release import git, members
from deploy.signing import verify
from tests.deploy.image.containers import control, engine, hardened
from tests.deploy.keys import new_key
from tests.deploy.tree import committed

pytestmark = pytest.mark.image

VERSION = "71.0.0"
HOUR = 3600


def test_two_clones_make_the_same_release_and_its_image_runs(tmp_path: Path) -> None:
    made, checkout = [], committed(tmp_path / "checkout")
    key, signers = new_key(tmp_path)
    folders = tmp_path / "one", tmp_path / "longer" / "two"
    for folder in folders:
        git("clone", "--quiet", checkout, folder)
        environment = {**os.environ, "PYTHON": sys.executable, "ENGINE": str(engine())}
        environment["KEY"] = str(key)
        command = [sys.executable, folder / "deploy" / "release.py", VERSION]
        subprocess.run(command, env=environment, check=True, timeout=HOUR)
        made.append(folder / "build" / "release" / VERSION)
    one, two = ({file.name: _sum(file) for file in folder.iterdir()} for folder in made)
    assert one == two
    (folder, _) = made
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    assert len((folder / "SHA256SUMS").read_text().splitlines()) == len(one) - 2 == 10
    verify(folder, signers)
    (digest,) = {entry["digest"] for entry in _index(folder)["manifests"]}
    assert digest in (folder / f"coversumm-worker-{VERSION}.notes.md").read_text()
    chart = dict(members(folder / f"coversumm-worker-{VERSION}.tgz"))
    assert digest.encode() in chart["coversumm-worker/Chart.yaml"]
    _runs(folder / f"coversumm-worker-image-{VERSION}.tar")


def _index(folder: Path) -> dict[str, list[dict[str, str]]]:
    content = dict(members(folder / f"coversumm-worker-image-{VERSION}.tar"))["index.json"]
    return dict(json.loads(content))


def _sum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _runs(archive: Path) -> None:
    """The archive, loaded where the image of its build no longer is."""
    control("image", "rm", "--force", f"localhost/coversumm-worker:{VERSION}")
    loaded = control("load", "--input", str(archive)).split()[-1]
    said = control("run", "--rm", *hardened(), loaded, "--version")
    assert VERSION in said
    control("image", "rm", "--force", loaded)
