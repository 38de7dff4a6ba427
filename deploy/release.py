"""`make release VERSION=1.0.0`: all files of a release of this commit, in build/release/1.0.0.

They are made in a clone that has the version everywhere. They depend on the commit, the version,
the base of the image, and the Python and compiler that make them: two runs give the same bytes.
With KEY, an SSH key of the publisher, they are signed (`deploy.signing`). Nothing is published.
`make version VERSION=1.0.0` writes the version into this tree instead.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from deploy.image.oci import normalized
from deploy.signing import SIGNATURE, SIGNER, SUMS, seal, sha256, statement
from deploy.version import (
    ROOT,
    Refused,
    check_version,
    dated,
    files_in,
    project,
    sections,
    write_version,
)

NAME: Final = "coversumm-worker"
DIGEST: Final = "coversumm-worker/image-digest"
"""The annotation of a packaged chart that its template of the image reads."""
VERIFY: Final = f"""Verify what you have downloaded. `allowed_signers` is a file with the line of
SECURITY.md, which you have from another place than these files:

    ssh-keygen -Y verify -f allowed_signers -I {SIGNER} -n file -s {SIGNATURE} < {SUMS}
    sha256sum --check --ignore-missing {SUMS}"""
LOCKS: Final = (
    "requirements.lock",
    "deploy/image/requirements.txt",
    "worker/native/Cargo.lock",
)
"""The files that pin what goes into a release."""
BACKEND: Final = (
    "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
)


def git(*arguments: str | Path, root: Path = ROOT) -> str:
    """What a git command wrote."""
    command = ["git", "-C", root, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def clone(version: str, folder: Path, root: Path = ROOT) -> int:
    """Clone the last commit, with the version: git sees no file there that differs. The commit's
    time in seconds.
    """
    git("clone", "--quiet", root, folder)
    git("checkout", "--quiet", "--detach", git("rev-parse", "HEAD", root=root), root=folder)
    epoch = int(git("log", "-1", "--format=%ct", root=folder))
    write_version(folder, version, time.strftime("%Y-%m-%d", time.gmtime(epoch)))
    if changed := git("diff", "--name-only", root=folder).splitlines():
        git("update-index", "--assume-unchanged", *changed, root=folder)
    return epoch


def pack(files: Iterable[tuple[str, bytes]], epoch: int) -> bytes:
    """A tar.gz of names and contents, sorted, of no owner."""
    made = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, made, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name, content in sorted(files):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), epoch
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def sdist(source: Path, epoch: int) -> tuple[str, bytes]:
    """Name and bytes of the source distribution, by the backend of pyproject.toml."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-c", BACKEND, folder]
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
        (made,) = Path(folder).iterdir()
        return made.name, pack(members(made), epoch)


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a tar or a wheel."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if content := tar.extractfile(member):
                yield member.name, content.read()


def chart(source: Path, digest: str, epoch: int) -> bytes:
    """The packaged chart, whose default image is the one of this digest."""
    folder = source / "deploy" / "chart"
    files = {f"{NAME}/{file.relative_to(folder)}": file.read_bytes() for file in files_in(folder)}
    files[f"{NAME}/Chart.yaml"] += f"  {DIGEST}: {digest}\n".encode()  # the last annotation
    return pack(files.items(), epoch)


def write_texts(source: Path, version: str, digest: str, epoch: int, target: Path) -> None:
    """Write all but the wheel and the image: source distribution, chart, schemas, the documents of
    both interfaces, notes.
    """
    name, content = sdist(source, epoch)
    (target / name).write_bytes(content)
    (target / f"{NAME}-{version}.tgz").write_bytes(chart(source, digest, epoch))
    top, folder = f"{NAME}-schemas-{version}", source / "schemas"
    files = [(f"{top}/{file.relative_to(folder)}", file.read_bytes()) for file in files_in(folder)]
    license_ = (f"{top}/LICENSE", (source / "LICENSE").read_bytes())
    (target / f"{top}.tar.gz").write_bytes(pack([*files, license_], epoch))
    for kind in "asyncapi", "openapi":
        document = source / "docs" / "reference" / f"{kind}.yaml"
        shutil.copyfile(document, target / f"{NAME}-{version}.{kind}.yaml")
    notes = sections((source / "CHANGELOG.md").read_text())[version]
    image = f"The image is `{NAME}:{version}`, `{digest}`."
    (target / f"{NAME}-{version}.notes.md").write_text(
        f"# {NAME} {version}\n\n{image}\n\n{VERIFY}\n\n{notes}\n"
    )


def write_image(source: Path, version: str, target: Path) -> str:
    """Build the image; write it, its list of contents and the wheel that it has. Its digest."""
    saved, name = source / "build" / "saved.tar", f"localhost/{NAME}:{version}"
    environment = {**os.environ, "COMPILE_WORKER": "1", "IMAGE": name, "SAVE": str(saved)}
    subprocess.run([source / "deploy" / "image" / "build"], env=environment, check=True)
    built = source / "build" / "image"
    (wheel,) = (built / "wheels" / "worker").iterdir()
    shutil.copyfile(wheel, target / wheel.name)
    image = target / f"{NAME}-image-{version}.tar"
    shutil.copyfile(built / f"{NAME}.cdx.json", target / f"{image.stem}.cdx.json")
    return normalized(saved, name, image)


def check_tools() -> None:
    """Raise Refused, and name the tools that are missing. There is no release without an image."""
    engines = os.environ.get("ENGINE", "docker podman buildah").split()
    backend = project(ROOT)["build-system"]["requires"]
    pins = [requirement.partition("==") for requirement in backend]
    compiler = os.environ.get("CC", "cc")
    needed = {
        f"a C compiler ({compiler})": _works(compiler, "--version"),
        "Rust (cargo)": _works("cargo", "--version"),
        f"{' and '.join(backend)} in {sys.prefix}": all(
            _version(name) == pin for name, _, pin in pins
        ),
        f"{' or '.join(engines)}, running": any(_works(engine, "info") for engine in engines),
    }
    if missing := [name for name, has_it in needed.items() if not has_it]:
        raise Refused(f"a release needs {'; '.join(missing)}")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _works(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def inputs(source: Path) -> dict[str, dict[str, str]]:
    """Digests by name of what a release is made from: the commit, and the pins of all else."""
    commit = {"commit": {"gitCommit": git("rev-parse", "HEAD", root=source)}}
    return commit | {name: {"sha256": sha256(source / name)} for name in LOCKS}


def tools() -> dict[str, str]:
    """Versions by name of what makes a release, and the bases of the image that were named."""
    named = {name: os.environ[name] for name in ("BASE", "RUNTIME") if os.environ.get(name)}
    compilers = {"cc": [os.environ.get("CC", "cc"), "--version"], "rustc": ["rustc", "--version"]}
    said = {name: _said(command) for name, command in compilers.items()}
    return {"python": sys.version.split()[0], **said, **named}


def _said(command: list[str]) -> str:
    """The first line that a command writes; nothing if there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0]


def make(version: str, key: Path | None) -> Path:
    """Make all files, signed if there is a key; their folder, which is complete or not there."""
    folder = ROOT / "build" / "release"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / version, ignore_errors=True)
    with TemporaryDirectory(dir=folder) as scratch:
        source, made = Path(scratch, "source"), Path(scratch, version)
        made.mkdir()
        epoch = clone(version, source)
        write_texts(source, version, write_image(source, version, made), epoch, made)
        refuse_paths(made, scratch)
        about = statement(made, f"make release VERSION={version}", inputs(source), tools())
        seal(made, f"{NAME}-{version}", about, key)
        return made.rename(folder / version)


def refuse_paths(made: Path, path: str) -> None:
    """Raise Refused if a file in an archive of `made` has this path."""
    for archive in [*made.glob("*.whl"), *made.glob("*gz")]:
        for name, content in members(archive):
            if path.encode() in content:
                raise Refused(f"{name} in {archive.name} has the path {path} of its build")


def main(version: str = "") -> None:
    """Make a release of the last commit, if all that it needs is here."""
    check_version(version)
    if changed := git("status", "--porcelain"):
        raise Refused(f"commit or remove what differs from the last commit:\n{changed}")
    dated((ROOT / "CHANGELOG.md").read_text(), version, "")
    check_tools()
    key = Path(os.environ["KEY"]).expanduser().resolve() if os.environ.get("KEY") else None
    if key is not None and not key.is_file():
        raise Refused(f"KEY={key} is no file: name an SSH key, as ssh-keygen -t ed25519 makes one")
    made = make(version, key)
    if key is None:
        print("not signed: KEY=FILE names the publisher's SSH key", file=sys.stderr)
    print("".join(f"{file.relative_to(ROOT)}\n" for file in files_in(made)), end="")


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(*sys.argv[1:])
    except Refused as cause:
        sys.exit(f"error: {cause}")
