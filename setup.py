"""What of the package is compiled, and its commit; everything else about the build is in
pyproject.toml.

- The crate in `worker/native/` is the extension `worker._native`. Without Rust, or where its crates
  cannot be fetched, the installation succeeds without it; a wheel is then for any Python and
  processor, and the build says so.
- COMPILE_WORKER=1: it is not optional.
- COMPILE_WORKER=0: nothing is compiled, and a wheel is for any Python and processor.
"""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ASKED = os.environ.get("COMPILE_WORKER")

try:
    from setuptools_rust import RustExtension
except ImportError:  # an environment of one's own, without build isolation
    if ASKED == "1":
        raise
    RustExtension = None

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from worker import COMMIT_FILE, commit_of, native_sources  # noqa: E402


def rust_extensions() -> list["RustExtension"]:
    """The crate, for any Python from 3.11. Without a network it is given up quickly."""
    if ASKED == "0" or RustExtension is None:
        return []
    folder = "build/native"  # not beside the sources, where packages are looked for
    quick = {"CARGO_NET_RETRY": "1", "CARGO_HTTP_TIMEOUT": "10", "CARGO_TARGET_DIR": folder}
    # the module names no path of this machine
    registry = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    flags = f"--remap-path-prefix={registry}=/cargo --remap-path-prefix={ROOT}=/src"
    quick["COVERSUMM_SOURCES"] = native_sources(ROOT / "worker")
    quick["RUSTFLAGS"] = f"{flags} {os.environ.get('RUSTFLAGS', '')}".rstrip()
    return [
        RustExtension(
            "worker._native",
            "worker/native/Cargo.toml",
            args=["--locked"],
            debug=False,
            optional=ASKED != "1",
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


class WheelOfWhatWasBuilt(bdist_wheel):
    """Tags a wheel that has no native code `py3-none-any`, and says so."""

    def get_tag(self) -> tuple[str, str, str]:
        """See `bdist_wheel`: called when all files are there."""
        if self.root_is_pure or list(Path(self.bdist_dir, "worker").glob("_native*.so")):
            return super().get_tag()
        print("this wheel has no native code: it is for any processor, and slower", file=sys.stderr)
        self.root_is_pure = True
        return ("py3", "none", "any")


setup(
    cmdclass={"build_py": BuildWithCommit, "bdist_wheel": WheelOfWhatWasBuilt},
    rust_extensions=rust_extensions(),
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
