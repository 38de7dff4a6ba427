"""Pin what the image is made of, by version and hash: renews `requirements.txt`,
`sbom-requirements.txt` and those of the extras beside this file.

For the image's Python, which has to be the one that runs this: 3.11. Nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deploy.lock import versions
from deploy.version import ROOT

HERE = Path(__file__).parent
SBOM_TOOL = "cyclonedx-bom==7.5.0"
WORKER = "coversumm-worker"
EXTRAS = ("avro", "language", "msk", "openvino", "otel", "parquet")
NOT_NEEDED = "openvino-telemetry"
"""The worker imports OpenVINO without it."""


def pins(*what: str) -> list[str]:
    """A line for each wheel that pip would install for `what`, without the worker's own."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--dry-run",
    ]
    command += ["--ignore-installed", "--only-binary=:all:", "--report", "-", *what]
    with NamedTemporaryFile("w") as constraints:
        constraints.write(versions())
        constraints.flush()
        command += ["--constraint", constraints.name]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return sorted(
        f"{package['metadata']['name']}=={package['metadata']['version']} "
        f"--hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}"
        for package in json.loads(done.stdout)["install"]
        if package["metadata"]["name"] not in (WORKER, NOT_NEEDED)
    )


def write(name: str, comment: str, lines: list[str]) -> None:
    """Write one of the files."""
    (HERE / name).write_text("\n".join([f"# {comment} Written by pin.py.", *lines]) + "\n")


if __name__ == "__main__":
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("the image has Python 3.11: run this with it")
    everywhere = pins(".")
    write(
        "requirements.txt",
        "What the image has beside the worker and its model, in the versions of requirements.lock.",
        everywhere,
    )
    for extra in EXTRAS:
        of_extra = pins(f".[{extra}]")
        write(
            f"extras/{extra}.txt",
            f"What a variant of the image with the extra {extra} has besides.",
            [line for line in of_extra if line not in everywhere],
        )
    write(
        "sbom-requirements.txt",
        "What writes the image's SBOM during its build; none of it is in the image.",
        pins(SBOM_TOOL),
    )
