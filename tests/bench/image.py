"""Sizes of the container image and of its variants with an extra: `make bench-image`.

    python -m tests.bench.image [--built] [--out FILE]

Builds each, unless `--built` says that all are there, and asks docker or podman for the bytes of
all layers, which are uncompressed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.machine import began, command_line, write
from tests.deploy.image.containers import ROOT, control, engine, image

RESULTS: Final = Path(__file__).with_name("results") / "image.json"
EXTRAS: Final = ("avro", "language", "openvino", "otel", "parquet")


def main() -> int:
    """Build, measure, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--built", action="store_true", help="the images are there")
    given = parser.parse_args()
    record = began("tests.bench.image")
    for extra in () if given.built else EXTRAS:
        build = ROOT / "deploy" / "image" / "build"
        subprocess.run([build], env={**os.environ, "EXTRAS": extra}, check=True)
    suffixes = {"": "", **{extra: f"-{extra}" for extra in EXTRAS}}
    found = {
        extra: json.loads(control("image", "inspect", image() + suffix))[0]["Size"]
        for extra, suffix in suffixes.items()
    }
    write(given.out, record | {"engine": engine(), "bytes": found})
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
