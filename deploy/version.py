"""`make version VERSION=1.0.0`: write the version into this tree, and into the changelog with the
date of today.
"""

from __future__ import annotations

import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-rc\.([1-9]\d*))?")
UNRELEASED: Final = "## [Unreleased]\n"
VERSIONED: Final = (
    "pyproject.toml",
    "CITATION.cff",
    "worker/__init__.py",
    "deploy/chart/Chart.yaml",
    "deploy/compose.yaml",
    "deploy/examples",
    "docs/build/schemas.py",
    "docs/deploy.md",
    "docs/image.md",
    "docs/reference/asyncapi.yaml",
    "docs/reference/openapi.yaml",
    "schemas",
    "tests/deploy/image/test_containers.py",
    "tests/deploy/values",
)
"""Files and folders that name the version of the tree."""


class Refused(Exception):
    """Why there is no release, and what to do."""


def sections(changelog: str) -> dict[str, str]:
    """Name -> text of each section of the changelog: `Unreleased`, `1.0.0`."""
    parts = re.split(r"^## \[([^\]]+)\].*\n", changelog, flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def dated(changelog: str, version: str, day: str) -> str:
    """The changelog with a section of the version: what is unreleased becomes it. Raises Refused
    without an entry for it, and if it is not newer than the versions before it.
    """
    found = sections(changelog)
    unreleased = found.pop("Unreleased", "")
    if version in found:
        if unreleased:
            raise Refused(
                f"CHANGELOG.md has entries under [Unreleased] beside [{version}]: release the "
                f"next version, or check out the commit of {version}"
            )
        return changelog
    if not unreleased:
        raise Refused(f"CHANGELOG.md has no section [{version}] and no entries: write them")
    newest = max(found, key=_order, default=version)
    if _order(version) < _order(newest):
        raise Refused(f"{version} is not newer than {newest} of CHANGELOG.md: choose another")
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1)


def _order(version: str) -> tuple[float, ...]:
    parts = VERSION.fullmatch(version)
    return tuple(float(part or "inf") for part in parts.groups()) if parts else ()


def write_version(root: Path, version: str, day: str) -> None:
    """Write the version into a tree, wherever the tree names the one that it has."""
    changelog = root / "CHANGELOG.md"
    changelog.write_text(dated(changelog.read_text(), version, day))
    old = project(root)["project"]["version"]
    for file in (file for name in VERSIONED for file in files_in(root / name)):
        # In pyproject.toml the first is the project's own; others may be those of packages.
        count = 1 if file.name == "pyproject.toml" else 0
        whole = rf"(?<![\d.]){re.escape(old)}(?!\.?\d)"
        file.write_text(re.sub(whole, version, file.read_text(), count=count))


def project(root: Path) -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((root / "pyproject.toml").read_text())


def files_in(path: Path) -> list[Path]:
    """A file, or all files of a folder but compiled ones, sorted."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and file.suffix != ".pyc")


def check_version(version: str) -> None:
    """Raise Refused unless it is a version."""
    if not VERSION.fullmatch(version):
        raise Refused(f"VERSION={version}: write it as 1.0.0 or, before a release, 1.0.0-rc.1")


if __name__ == "__main__":
    try:
        check_version("".join(sys.argv[1:]))
        write_version(ROOT, sys.argv[1], time.strftime("%Y-%m-%d", time.gmtime()))
    except Refused as cause:
        sys.exit(f"error: {cause}")
