"""The worker of a later version: this one cannot read the headers it writes, it reads ours.

python -m tests.harness.newer run
"""

from __future__ import annotations

from worker.cli import main
from worker.state import rows

if __name__ == "__main__":
    unseal, known = rows.unseal, rows.HEADER_FORMAT

    def unseal_of_two_formats(key: bytes, value: bytes, newest: int = 1, oldest: int = 1) -> bytes:
        return unseal(key, value, newest, min(oldest, known))

    rows.unseal = unseal_of_two_formats
    rows.HEADER_FORMAT = rows.FORMATS["header"] = known + 1  # type: ignore[misc]
    main()
