"""Run inside a container, by the image's Python: what it may do, what is in it, and what its list
of contents says, as JSON.
"""

import importlib.metadata
import importlib.util
import json
import os
import shutil
from pathlib import Path

PROGRAMS = ("cc", "gcc", "ld", "pip", "apt", "sh", "bash")
MODULES = ("torch", "sentence_transformers", "pip")
OF_THE_KERNEL = ("/proc", "/dev", "/sys")

folders = (folder for folder, *_ in os.walk("/") if not folder.startswith(OF_THE_KERNEL))
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(
    json.dumps(
        {
            "writable": [folder for folder in folders if os.access(folder, os.W_OK)],
            "status": {
                name: status[name].split() for name in ("Uid", "CapEff", "CapPrm", "NoNewPrivs")
            },
            "programs": [name for name in PROGRAMS if shutil.which(name)],
            "modules": [name for name in MODULES if importlib.util.find_spec(name)],
            "native": importlib.util.find_spec("worker._native") is not None,
            "installed": [
                [distribution.name, distribution.version]
                for distribution in importlib.metadata.distributions()
            ],
            "packages": [path.name for path in Path("/var/lib/dpkg/status.d").glob("*")],
            "sbom": Path("/usr/share/sbom/coversumm-worker.cdx.json").read_text(),
        }
    )
)
