"""Seals the files of a release, and verifies them as a stranger would.

`SHA256SUMS` has the hash of every file. It is signed with an SSH key, so a verifier needs
`ssh-keygen` and no service. One of the files is an in-toto statement: the same hashes, with the
inputs and the command that the files were made from.

    python deploy/signing.py FOLDER ALLOWED_SIGNERS      `make release-verify`
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from deploy.version import Refused, files_in

SIGNER: Final = "release@coversumm"
"""The name of the publisher's key in a file of allowed signers."""
SUMS: Final = "SHA256SUMS"
SIGNATURE: Final = f"{SUMS}.sig"
STATEMENT: Final = ".intoto.json"
"""The end of the statement's name."""


def sha256(file: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def statement(
    folder: Path, command: str, inputs: Mapping[str, Mapping[str, str]], tools: Mapping[str, str]
) -> dict[str, Any]:
    """An in-toto statement about the files of a folder, in the form of SLSA's provenance.

    `inputs` has digests by name; `tools` has versions by name.
    """
    dependencies = [{"name": name, "digest": dict(digest)} for name, digest in inputs.items()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": file.name, "digest": {"sha256": sha256(file)}} for file in files_in(folder)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:coversumm-worker:make-release:1",
                "externalParameters": {"command": command},
                "internalParameters": dict(tools),
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": "make release"}},
        },
    }


def seal(folder: Path, name: str, about: Mapping[str, Any], key: Path | None) -> None:
    """Write the statement and `SHA256SUMS`, and sign the latter with an SSH key if there is one.

    Raises Refused if the key cannot sign.
    """
    (folder / f"{name}{STATEMENT}").write_text(json.dumps(about, indent=1) + "\n")
    sums = folder / SUMS
    sums.write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files_in(folder)))
    if key is not None:
        command = ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", sums]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"KEY={key} signs nothing: {done.stderr.strip()}")


def verify(folder: Path, signers: Path) -> None:
    """Verify a copy of a release. Raises Refused, and names the file that is not the publisher's.

    `signers` is the publisher's file of allowed signers, got by another way than the release.
    """
    for name in (SUMS, SIGNATURE):
        if not (folder / name).is_file():
            raise Refused(f"{folder} has no {name}: it is no signed release")
    with TemporaryDirectory() as fresh:
        copy = shutil.copytree(folder, Path(fresh, "release"))
        _verify_signature(copy, signers.resolve())
        _verify_sums(copy)
        _verify_statement(copy)


def _verify_signature(copy: Path, signers: Path) -> None:
    command = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", SIGNER, "-n", "file"]
    done = subprocess.run(
        [*command, "-s", copy / SIGNATURE],
        input=(copy / SUMS).read_bytes(),
        capture_output=True,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise Refused(f"{SIGNATURE} is no signature of {SUMS} by {SIGNER} in {signers}: {said}")


def _verify_sums(copy: Path) -> None:
    lines = (line.split("  ", 1) for line in (copy / SUMS).read_text().splitlines())
    wanted = {name: digest for digest, name in lines}
    files = [file for file in copy.rglob("*") if not file.is_dir()]
    found = {str(file.relative_to(copy)): sha256(file) for file in files}
    del found[SUMS], found[SIGNATURE]
    if missing := sorted(wanted.keys() - found.keys()):
        raise Refused(f"missing: {', '.join(missing)}")
    if unknown := sorted(found.keys() - wanted.keys()):
        raise Refused(f"not in {SUMS}: {', '.join(unknown)}")
    if changed := sorted(name for name in found if found[name] != wanted[name]):
        raise Refused(f"not the file that was signed: {', '.join(changed)}")


def _verify_statement(copy: Path) -> None:
    """The statement speaks of these files; it cannot differ unless the publisher signed both."""
    names = [file.name for file in files_in(copy) if file.name.endswith(STATEMENT)]
    if len(names) != 1:
        raise Refused(f"there must be one statement, *{STATEMENT}; there are {len(names)}")
    subjects = json.loads((copy / names[0]).read_text())["subject"]
    said = {subject["name"]: subject["digest"]["sha256"] for subject in subjects}
    others = (SUMS, SIGNATURE, names[0])
    if said != {file.name: sha256(file) for file in files_in(copy) if file.name not in others}:
        raise Refused(f"{names[0]} speaks of other files")


def main(folder: str = "", signers: str = "") -> None:
    """Verify, and say what was verified."""
    if not folder or not signers:
        raise Refused("name both: make release-verify FOLDER=build/release/1.0.0 SIGNERS=FILE")
    for given in (Path(folder), Path(signers)):
        if not given.exists():
            raise Refused(f"{given} does not exist")
    verify(Path(folder), Path(signers))
    print(f"{folder}: every file is the one that {SIGNER} signed")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as cause:
        sys.exit(f"error: {cause}")
