"""What the record of a benchmark or a proof begins with: what it ran on, when, and by which
command; and how it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from worker import __version__


def began(program: str) -> dict[str, Any]:
    """What a record of `python -m program` begins with: where, when and how it was made."""
    return {
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", program, *sys.argv[1:]]),
        "version": __version__,
    }


def write(path: Path, record: Mapping[str, Any]) -> None:
    """The record, where it is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def tell(targets: Mapping[str, float], measured: Mapping[str, Any], path: Path) -> None:
    """What came of the targets, a line each, and where all of it is."""
    for name, target in targets.items():
        figure = f"{measured[name]:,}" if name in measured else "not measured"
        print(f"{name:24} {figure:>12}   target {target:,}")
    print(f"all figures: {path}")


def machine() -> dict[str, Any]:
    """What the figures are worth: processor, cores, memory, versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*: (.*)", info.read_text())):
        cpu = found[1]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_before": round(os.getloadavg()[0], 2),
    }


def command_line(about: str | None, out: Path | None = None) -> argparse.ArgumentParser:
    """The arguments of a program with this description; `out`: where it writes its record."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if out is not None:
        parser.add_argument("--out", type=Path, default=out)
    return parser
