"""`make lock`: renew the hashes and the packages of all locks; versions stay.

To bring a package up, change its version in the lock first. Hashes are those of the files that
Linux on x86-64 and ARM, and macOS on ARM, install; the source where a package has no wheel for one
of them.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from deploy.version import ROOT, project
from worker.text.minilm import PACKAGE as MODEL

PYTHONS: Final = [(3, minor) for minor in (11, 12, 13, 14)]
LINUX: Final = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(5, 40)))
PLATFORMS: Final = (
    [f"{linux}_x86_64" for linux in LINUX],
    [f"{linux}_aarch64" for linux in LINUX],
    [f"macosx_{major}_0_{kind}" for major in range(10, 16) for kind in ("arm64", "universal2")]
    + ["macosx_10_9_universal2", "macosx_10_13_universal2", "macosx_10_15_universal2"],
)
LOCKS: Final = {
    "requirements.lock": "What `make setup` installs: the worker's packages, those that build it, "
    "and its model.",
    "requirements-dev.lock": "What checks, tests and the other extras need besides.",
    "deploy/uv.lock": "What installs the locks, in a tenth of pip's time.",
    "tests/bench/hnswlib.lock": "What is compiled for the naive HNSW of the paper's table.",
}


def resolve(text: str, *what: str) -> dict[str, dict[str, Any]]:
    """By name the packages that `what` and the requirements in `text` need on some Python, with
    their files.
    """
    with TemporaryDirectory() as folder:
        constraints, found = Path(folder, "versions"), Path(folder, "pylock.toml")
        constraints.write_text(versions())
        command = [f"{sys.prefix}/bin/uv", "pip", "compile", "--quiet", "--universal"]
        command += ["--python-version", "3.11", "--format", "pylock.toml", "--constraint"]
        command += [str(constraints), "--output-file", str(found), *what, "-"]
        subprocess.run(command, cwd=ROOT, check=True, input=text, text=True, stdout=subprocess.PIPE)
        packages = tomllib.loads(found.read_text())["packages"]
    return {package["name"]: package for package in packages if _is_needed(package)}


def _is_needed(package: dict[str, Any]) -> bool:
    marker = Marker(package.get("marker", "python_version > '3'"))
    pythons = [f"{major}.{minor}" for major, minor in PYTHONS]
    return any(
        marker.evaluate({"python_version": python, "python_full_version": f"{python}.9"})
        for python in pythons
    )


def hashes(package: dict[str, Any]) -> list[str]:
    """The hashes of a package's files that one of PYTHONS on one of PLATFORMS may install."""
    wheels = {_tags(wheel): wheel["hashes"]["sha256"] for wheel in package.get("wheels", [])}
    chosen = set()
    for python in PYTHONS:
        for platforms in PLATFORMS:
            tags = {*cpython_tags(python, platforms=platforms)}
            tags |= {*compatible_tags(python, platforms=platforms)}
            fitting = {digest for of_wheel, digest in wheels.items() if of_wheel & tags}
            chosen |= fitting or {package["sdist"]["hashes"]["sha256"]}
    return sorted(chosen)


def _tags(wheel: dict[str, Any]) -> frozenset[Tag]:
    return parse_wheel_filename(unquote(wheel["url"]).rpartition("/")[2])[3]


def lines(packages: dict[str, dict[str, Any]]) -> str:
    """The lines of a lock: for each package its version, and below it the hashes."""
    return "".join(
        " \\\n    ".join(
            [f"{name}=={package['version']}", *(f"--hash=sha256:{d}" for d in hashes(package))]
        )
        + "\n"
        for name, package in sorted(packages.items())
    )


def versions() -> str:
    """The lines of all locks without their hashes."""
    locked = "".join((ROOT / name).read_text() for name in LOCKS).splitlines()
    return "\n".join(line.removesuffix(" \\") for line in locked if "==" in line)


def main() -> None:
    """Write all locks."""
    backend = "\n".join(project(ROOT)["build-system"]["requires"])
    of_setup = ["pyproject.toml", "--extra", "language"]
    # the model's publisher pins nothing it needs, and it needs nothing here
    runtime = resolve(backend, *of_setup) | resolve(MODEL, "--no-deps")
    all_ = resolve(backend, *of_setup, "requirements-dev.txt")
    dev = {name: package for name, package in all_.items() if name not in runtime}
    alone = [resolve(name, "--no-deps") for name in ("uv", "hnswlib")]
    for (name, comment), packages in zip(LOCKS.items(), [runtime, dev, *alone], strict=True):
        (ROOT / name).write_text(f"# {comment} Hashes by `make lock`.\n{lines(packages)}")


if __name__ == "__main__":
    main()
