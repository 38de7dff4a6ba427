"""A sealed release is verified; a change in it, and another key's signature, are refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.release import VERIFY, inputs, tools
from deploy.signing import SIGNATURE, SUMS, seal, sha256, statement, verify
from deploy.version import ROOT, Refused
from tests.deploy.keys import new_key

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (OpenSSH)"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout"),
]

STATEMENT = "worker-1.0.0.intoto.json"
FILES = {"worker-1.0.0.whl": b"wheel", "worker-1.0.0.tgz": b"chart", "worker-1.0.0.notes.md": b"x"}


@pytest.fixture
def signers(tmp_path: Path) -> Path:
    return _release(tmp_path)[1]


def _release(folder: Path, name: str = "key") -> tuple[Path, Path]:
    """A sealed release, and the file of allowed signers."""
    key, signers = new_key(folder, name)
    release = folder / "release"
    shutil.rmtree(release, ignore_errors=True)
    release.mkdir()
    for file, content in FILES.items():
        (release / file).write_bytes(content)
    about = statement(release, "make release VERSION=1.0.0", inputs(ROOT), tools())
    seal(release, "worker-1.0.0", about, key)
    return release, signers


def test_the_publishers_files_are_verified(signers: Path, tmp_path: Path) -> None:
    verify(tmp_path / "release", signers)
    assert len(list((tmp_path / "release").iterdir())) == len(FILES) + 3


@pytest.mark.parametrize("name", [*FILES, STATEMENT, SUMS, SIGNATURE])
def test_each_file_that_is_changed_or_removed_is_refused(
    name: str, signers: Path, tmp_path: Path
) -> None:
    file = tmp_path / "release" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(Refused, match=SIGNATURE if name in (SUMS, SIGNATURE) else name):
        verify(tmp_path / "release", signers)
    file.unlink()
    with pytest.raises(Refused, match=name):
        verify(tmp_path / "release", signers)


@pytest.mark.parametrize("name", ["worker-1.0.0.tar.gz", "below/worker.pyc"])
def test_a_file_that_nobody_signed_is_refused(name: str, signers: Path, tmp_path: Path) -> None:
    extra = tmp_path / "release" / name
    extra.parent.mkdir(exist_ok=True)
    extra.write_text("x")
    with pytest.raises(Refused, match=f"not in {SUMS}: {name}"):
        verify(tmp_path / "release", signers)


def test_a_release_that_another_key_signed_is_refused(signers: Path, tmp_path: Path) -> None:
    release, others = _release(tmp_path, "another")
    verify(release, others)
    with pytest.raises(Refused, match="no signature of SHA256SUMS by release@coversumm"):
        verify(release, signers)


def test_a_statement_about_other_files_is_refused(tmp_path: Path) -> None:
    release, signers = _release(tmp_path)
    about = json.loads((release / STATEMENT).read_text())
    about["subject"][0]["digest"]["sha256"] = "0" * 64
    for name in (STATEMENT, SUMS, SIGNATURE):
        (release / name).unlink()
    seal(release, "worker-1.0.0", about, tmp_path / "key")
    with pytest.raises(Refused, match=f"{STATEMENT} speaks of other files"):
        verify(release, signers)


def test_the_statement_names_commit_pins_and_command(signers: Path, tmp_path: Path) -> None:
    about = json.loads((tmp_path / "release" / STATEMENT).read_text())
    assert {subject["name"] for subject in about["subject"]} == FILES.keys()
    definition = about["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"command": "make release VERSION=1.0.0"}
    digests = {
        dependency["name"]: dependency["digest"]
        for dependency in definition["resolvedDependencies"]
    }
    assert digests["requirements.lock"] == {"sha256": sha256(ROOT / "requirements.lock")}
    assert len(digests["commit"]["gitCommit"]) == 40
    assert definition["internalParameters"]["python"] == sys.version.split()[0]


def test_the_two_commands_of_the_release_page_verify_it(signers: Path, tmp_path: Path) -> None:
    commands = "\n".join(line for line in VERIFY.splitlines() if line.startswith("    "))
    release = tmp_path / "release"
    shutil.copyfile(signers, release / "allowed_signers")

    def run() -> int:
        return subprocess.run(
            ["bash", "-ec", commands], cwd=release, capture_output=True
        ).returncode

    assert run() == 0
    (release / "worker-1.0.0.whl").write_bytes(b"other")
    assert run() != 0


def _nothing(folder: Path) -> list[str]:
    return []


def _no_signature(folder: Path) -> list[str]:
    (folder / "empty").mkdir()
    return [str(folder / "empty"), str(folder / "empty")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (_nothing, "name both: make release-verify FOLDER=build/release/1.0.0 SIGNERS=FILE"),
        (_no_signature, "has no SHA256SUMS: it is no signed release"),
        (lambda folder: [str(folder), "/nowhere"], "/nowhere does not exist"),
    ],
)
def test_what_cannot_be_verified_is_said(
    arguments: Callable[[Path], list[str]], said: str, tmp_path: Path
) -> None:
    command = [sys.executable, ROOT / "deploy" / "signing.py", *arguments(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith(f"{said}\n")


def test_a_key_that_cannot_sign_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    (tmp_path / "release").mkdir()
    with pytest.raises(Refused, match=r"KEY=.*key signs nothing: "):
        seal(tmp_path / "release", "worker", {}, tmp_path / "key")
