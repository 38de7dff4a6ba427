"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np


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
