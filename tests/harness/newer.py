"""The worker of a later version: its headers have a format that this one cannot read.

python -m tests.harness.newer run
"""

from __future__ import annotations

from worker.cli import main
from worker.state import rows

if __name__ == "__main__":
    rows.HEADER_FORMAT = rows.FORMATS["header"] = 3  # type: ignore[misc]
    main()
