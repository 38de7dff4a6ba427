"""The worker where `clock.py` may step its clock: python -m tests.harness.stepped run

libfaketime refuses `clock_nanosleep` with a time of the monotonic clock that it does not fake;
Python's sleep is that.
"""

from __future__ import annotations

import select
import time


def sleep(seconds: float) -> None:
    """As `time.sleep`, by another call of the system."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    time.sleep = sleep
    from worker.cli import main

    main()
