"""The worker keeps the exact extractive summary of every entity's reviews on Kafka."""

from functools import cache
from pathlib import Path

__version__ = "1.0.0"
COMMIT_FILE = "commit.txt"  # in a wheel, written by setup.py


@cache
def build() -> str:
    """The version and the commit of this build, as `1.0.0+ab12cd34ef`, to tell builds of one
    version apart; the version alone if the commit is unknown.
    """
    folder = Path(__file__).parent
    file = folder / COMMIT_FILE
    commit = file.read_text().strip() if file.exists() else commit_of(folder.parent)
    return f"{__version__}+{commit}" if commit else __version__


def native_sources(package: Path = Path(__file__).parent) -> str:
    """A digest of the sources of native code, which its module has too; empty without sources.

    A wheel has none of them: its module was built with its Python files.
    """
    from hashlib import sha256

    crate = package / "native"
    digest = sha256()
    files = sorted([*crate.glob("Cargo.*"), *crate.glob("src/*.rs")])
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest() if files else ""


def commit_of(checkout: Path) -> str:
    """The commit of a git checkout, with `-modified` if files differ from it; else empty."""
    import subprocess

    if not (checkout / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=-modified"]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
