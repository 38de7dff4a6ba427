"""What of the package is compiled, and its commit; everything else about the build is in
pyproject.toml.

- Each C file in `worker/` is an extension of that name. It is optional: without a
  C compiler the installation succeeds, and the package uses its NumPy version instead.
- The crate in `worker/native/` is the extension `worker._native`. Without Rust, or where its crates
  cannot be fetched, the installation succeeds without it.
- COMPILE_WORKER=1: a wheel has the modules of `[tool.compiled]` in pyproject.toml compiled by
  mypyc, and their sources beside them, for tracebacks. A compiler is needed then, and no C
  is optional. An editable installation never has them.
- COMPILE_WORKER=0: nothing is compiled, and a wheel is for any Python and processor.
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

try:
    from setuptools_rust import RustExtension
except ImportError:  # an environment of one's own, without build isolation
    RustExtension = None

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from worker import COMMIT_FILE, commit_of  # noqa: E402

ASKED = os.environ.get("COMPILE_WORKER")
COMPILE = ASKED == "1"
BUILD = "build/mypyc"  # of its own, or what is compiled would be found by a later build without
NEEDED = (
    "ast_serialize",
    "librt",
    "msgspec",
    "mypy",
    "mypy_extensions",
    "numpy",
    "pathspec",
    "typing_extensions",
)
"""What mypyc needs and what it reads the types of, in the versions of requirements.lock."""


def locked() -> list[str]:
    """The requirements of a build with compiled modules."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = {line.partition("==")[0]: line for line in lines}
    return [pins[name] for name in NEEDED]


def extensions() -> list[Extension]:
    """By hand, and by mypyc. Debug information would hold the paths of this build."""
    if ASKED == "0":
        return []
    found = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-g0"],
            optional=not COMPILE,
        )
        for path in sorted(Path("worker").rglob("*.c"))
    ]
    if COMPILE and {"bdist_wheel", "build_ext"} & set(sys.argv):
        from mypyc.build import mypycify

        modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["compiled"][
            "modules"
        ]
        # Not all libraries are there while a wheel is built.
        options = [
            "--config-file=pyproject.toml",
            f"--cache-dir={BUILD}/cache",
            "--ignore-missing-imports",
        ]
        found += mypycify(
            [*options, *modules], group_name="coversumm_worker", debug_level="0", target_dir=BUILD
        )
    return found


def rust_extensions() -> list["RustExtension"]:
    """The crate, for any Python from 3.11. Without a network it is given up quickly."""
    if ASKED == "0" or RustExtension is None:
        return []
    folder = "build/native"  # not beside the sources, where packages are looked for
    quick = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "10", "CARGO_TARGET_DIR": folder}
    # the module names no path of this machine
    registry = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    flags = f"--remap-path-prefix={registry}=/cargo --remap-path-prefix={ROOT}=/src"
    quick["RUSTFLAGS"] = f"{flags} {os.environ.get('RUSTFLAGS', '')}".rstrip()
    return [
        RustExtension(
            "worker._native",
            "worker/native/Cargo.toml",
            args=["--locked"],
            debug=False,
            optional=True,
            env={**os.environ, **quick},
            py_limited_api=True,
        )
    ]


class BuildWithCommit(build_py):
    """Also writes the commit, which `coversumm-worker status` shows."""

    def run(self) -> None:
        """See `build_py`."""
        super().run()
        if not self.editable_mode and (commit := commit_of(ROOT)):
            Path(self.build_lib, "worker", COMMIT_FILE).write_text(commit + "\n")


setup(
    cmdclass={"build_py": BuildWithCommit},
    ext_modules=extensions(),
    rust_extensions=rust_extensions(),
    setup_requires=locked() if COMPILE else [],
    options={"build": {"build_base": BUILD}} if COMPILE else {},
)
