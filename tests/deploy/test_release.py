"""A release: what has no image in it twice from two folders, what refuses to make one, and an image
as an archive. `make image-test` makes whole releases.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.image.oci import normalized
from deploy.release import clone, git, members, refuse_paths, write_texts
from deploy.version import ROOT, Refused, check_version, dated, project, sections
from tests.deploy.chart import Refused as ByHelm
from tests.deploy.chart import helm, only, worker
from tests.deploy.tree import ENTRY, committed
from tests.harness.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")

VERSION = "71.0.0-rc.3"
DIGEST = f"sha256:{'7' * 64}"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n{}\n## [1.2.0] - 2027-01-01\n\n- Old.\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return committed(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def twice(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two clones, `source`, each with what was `made` of it."""
    folders = tmp_path_factory.mktemp("short"), tmp_path_factory.mktemp("longer") / "path"
    for number, folder in enumerate(folders):
        (folder / "made").mkdir(parents=True)
        source = folder / "source"
        before = os.umask(0o077 if number else 0o022)
        try:
            epoch = clone(VERSION, source, checkout)
        finally:
            os.umask(before)
        write_texts(source, VERSION, DIGEST, epoch, folder / "made")
    return folders


def test_two_clones_make_the_same_bytes(twice: list[Path]) -> None:
    first, second = ({file.name: file.read_bytes() for file in _made(folder)} for folder in twice)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert sorted(first) == [
        "coversumm-worker-71.0.0-rc.3.asyncapi.yaml",
        "coversumm-worker-71.0.0-rc.3.notes.md",
        "coversumm-worker-71.0.0-rc.3.openapi.yaml",
        "coversumm-worker-71.0.0-rc.3.tgz",
        "coversumm-worker-schemas-71.0.0-rc.3.tar.gz",
        "coversumm_worker-71.0.0rc3.tar.gz",
    ]


def _made(folder: Path) -> list[Path]:
    return list((folder / "made").iterdir())


def test_a_path_of_the_build_in_an_archive_is_refused(twice: list[Path]) -> None:
    refuse_paths(twice[0] / "made", str(twice[0]))
    with pytest.raises(
        Refused, match=r"coversumm-worker/Chart.yaml in .*tgz has the path apiVersion: v2"
    ):
        refuse_paths(twice[0] / "made", "apiVersion: v2")


def test_every_file_of_a_release_has_its_version(twice: list[Path]) -> None:
    made = twice[0] / "made"
    for kind in "asyncapi", "openapi":
        document = yaml.safe_load((made / f"coversumm-worker-{VERSION}.{kind}.yaml").read_text())
        assert document["info"]["version"] == VERSION
    chart = dict(members(made / f"coversumm-worker-{VERSION}.tgz"))
    about = yaml.safe_load(chart["coversumm-worker/Chart.yaml"])
    assert (about["version"], about["appVersion"]) == (VERSION, VERSION)
    source = dict(members(made / "coversumm_worker-71.0.0rc3.tar.gz"))
    top = "coversumm_worker-71.0.0rc3"
    assert f'\n__version__ = "{VERSION}"\n'.encode() in source[f"{top}/worker/__init__.py"]
    assert f"{top}/worker/native/Cargo.lock" in source
    assert not any(name.startswith(f"{top}/tests") for name in source)
    schemas = dict(members(made / f"coversumm-worker-schemas-{VERSION}.tar.gz"))
    for file in (path for path in (ROOT / "schemas").rglob("*") if path.is_file()):
        assert f"coversumm-worker-schemas-{VERSION}/{file.relative_to(ROOT / 'schemas')}" in schemas
    notes = (made / f"coversumm-worker-{VERSION}.notes.md").read_text()
    assert notes.startswith(f"# coversumm-worker {VERSION}\n\nThe image is `coversumm-worker:")
    assert DIGEST in notes
    assert ENTRY in notes
    assert sections((ROOT / "CHANGELOG.md").read_text())["Unreleased"] in notes


def test_generated_files_of_the_version_are_what_its_code_generates(twice: list[Path]) -> None:
    source = twice[0] / "source"
    assert git("status", "--porcelain", root=source) == ""
    done = subprocess.run(
        [sys.executable, "-m", "docs.build"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.helm
def test_the_packaged_chart_runs_the_image_of_its_digest(twice: list[Path]) -> None:
    file = twice[0] / "made" / f"coversumm-worker-{VERSION}.tgz"

    def images(values: Mapping[str, Any]) -> set[str]:
        text = helm("template", "shop", file, "-f", "-", stdin=json.dumps(values))
        made = [document for document in yaml.safe_load_all(text) if document]
        assert only(made, "StatefulSet")["metadata"]["labels"]["app.kubernetes.io/version"]
        jobs = [
            document
            for document in made
            if document["kind"] == "Job" and "replay" in document["metadata"]["name"]
        ]
        return {worker(made)["image"], *(_image_of(job) for job in jobs)}

    assert images({"image": "a.example/worker"}) == {f"a.example/worker@{DIGEST}"}
    assert images({"imageTag": "1.0.0-openvino"}) == {"coversumm-worker:1.0.0-openvino"}
    other = f"sha256:{'0' * 64}"
    assert images({"imageTag": "1.0.0", "imageDigest": other}) == {f"coversumm-worker@{other}"}
    replayed = {"replay": {"enabled": True, "name": "x", "imageTag": "0.9.0"}}
    assert images(replayed) == {f"coversumm-worker@{DIGEST}", "coversumm-worker:0.9.0"}
    helm("lint", file)
    with pytest.raises(ByHelm, match="imageDigest"):
        images({"imageDigest": "latest"})


def _image_of(job: Mapping[str, Any]) -> str:
    return str(job["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize(
    ("entries", "version", "said"),
    [
        ("", "1.3.0", "no section [1.3.0] and no entries"),
        ("\n- New.\n", "1.2.0", "entries under [Unreleased] beside [1.2.0]"),
        ("\n- New.\n", "1.1.9", "1.1.9 is not newer than 1.2.0"),
        ("\n- New.\n", "1.2.0-rc.1", "1.2.0-rc.1 is not newer than 1.2.0"),
    ],
)
def test_a_version_without_a_section_is_refused(entries: str, version: str, said: str) -> None:
    with pytest.raises(Refused) as refused:
        dated(CHANGELOG.format(entries), version, "2027-02-03")
    assert said in str(refused.value)


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    made = dated(CHANGELOG.format("\n- New.\n"), "1.10.0-rc.1", "2027-02-03")
    assert "## [Unreleased]\n\n## [1.10.0-rc.1] - 2027-02-03\n\n- New.\n" in made
    assert sections(made) == {"Unreleased": "", "1.10.0-rc.1": "- New.", "1.2.0": "- Old."}
    assert dated(made, "1.10.0-rc.1", "2028-01-01") == made
    assert "## [1.10.0] - " in dated(made.replace("ed]\n", "ed]\n\n- Newer.\n"), "1.10.0", "")


def _release(folder: Path, version: str, **environment: str) -> str:
    """What the command says, which is to fail."""
    done = subprocess.run(
        [sys.executable, folder / "deploy" / "release.py", version],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert not (folder / "build").exists()
    return done.stderr


def test_missing_tools_are_named_before_anything_is_made(checkout: Path) -> None:
    said = _release(checkout, "71.0.0", ENGINE="no-engine", CC="no-compiler")
    assert said.startswith("error: a release needs a C compiler (no-compiler); ")
    assert said.endswith("; no-engine, running\n")


def test_what_is_no_version_is_refused(checkout: Path) -> None:
    says = "VERSION={}: write it as 1.0.0 or, before a release, 1.0.0-rc.1"
    for version in "", "1.0", "1.0.0-rc1", "1.0.0-rc.0", "01.0.0", "1.0.0\n":
        with pytest.raises(Refused) as refused:
            check_version(version)
        assert str(refused.value) == says.format(version)
    assert _release(checkout, "v1.0.0") == f"error: {says.format('v1.0.0')}\n"


def test_files_that_differ_from_the_commit_are_refused(checkout: Path) -> None:
    new = checkout / "worker" / "new.py"
    new.write_text("")
    try:
        said = _release(checkout, "71.0.0")
    finally:
        new.unlink()
    assert said.endswith("differs from the last commit:\n?? worker/new.py\n")


def test_version_writes_the_tree_and_refuses_it_twice_with_new_entries(
    checkout: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tree"
    git("clone", "--quiet", checkout, folder)
    command = [sys.executable, folder / "deploy" / "version.py", "71.0.0"]
    subprocess.run(command, check=True)
    assert project(folder)["project"]["version"] == "71.0.0"
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text()
    assert "## [Unreleased]\n\n## [71.0.0] - 2" in text
    subprocess.run(command, check=True)
    assert changelog.read_text() == text
    changelog.write_text(text.replace("## [Unreleased]\n", "## [Unreleased]\n\n- More.\n"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "release the next version" in done.stderr


LAYERS = [b"first" * 1000, b"second" * 500_000]


def _saved(path: Path, *, level: int, config: Mapping[str, Any], layers: list[bytes]) -> Path:
    """An image as an engine saves it; without a level layers are not compressed."""
    blobs: dict[str, bytes] = {}

    def stored(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": "any", "digest": f"sha256:{digest}", "size": len(content)}

    packed = [gzip.compress(layer, level) if level else layer for layer in layers]
    manifest = {
        "config": stored(json.dumps(config).encode()),
        "layers": [stored(member) for member in packed],
        "annotations": {"level": str(level)},
    }
    index = {"manifests": [stored(json.dumps(manifest).encode())]}
    with tarfile.open(path, "w") as tar:
        for name, content in [("index.json", json.dumps(index).encode()), *blobs.items()]:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), level
            tar.addfile(member, io.BytesIO(content))
    return path


def test_an_image_has_one_archive_however_an_engine_saved_it(tmp_path: Path) -> None:
    ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in LAYERS]
    config = {"architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": ids}}
    made = []
    for level in 0, 1, 9:
        saved = _saved(tmp_path / "saved.tar", level=level, config=config, layers=LAYERS)
        target = tmp_path / f"{level}.tar"
        digest = normalized(saved, "1.0.0", target)
        made.append((digest, target.read_bytes()))
    assert made[0] == made[1] == made[2]
    files = dict(members(tmp_path / "0.tar"))
    for name, content in files.items():
        assert name in ("index.json", "oci-layout") or name.endswith(
            hashlib.sha256(content).hexdigest()
        )
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == digest
    manifest = json.loads(files[f"blobs/sha256/{digest[7:]}"])
    assert json.loads(files[f"blobs/sha256/{manifest['config']['digest'][7:]}"]) == config
    unpacked = [
        gzip.decompress(files[f"blobs/sha256/{layer['digest'][7:]}"])
        for layer in manifest["layers"]
    ]
    assert unpacked == LAYERS
    assert [layer["size"] for layer in manifest["layers"]] == [
        len(files[f"blobs/sha256/{layer['digest'][7:]}"]) for layer in manifest["layers"]
    ]
    wrong = _saved(tmp_path / "saved.tar", level=1, config=config, layers=LAYERS[::-1])
    with pytest.raises(ValueError, match=r"a layer is not the sha256:"):
        normalized(wrong, "1.0.0", tmp_path / "wrong.tar")
