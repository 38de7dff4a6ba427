"""The worker with short minutes: what it logs once a minute, it logs every few seconds.

python -m tests.harness.talkative run
"""

from __future__ import annotations

from worker.cli import main
from worker.kafka import contact
from worker.stream import journal

INTERVAL_SECONDS = 4.0
"""In place of the minute between two lines about dead letters or a silent broker."""

if __name__ == "__main__":
    journal.INTERVAL_SECONDS = INTERVAL_SECONDS  # type: ignore[misc]
    contact.REPEAT_SECONDS = INTERVAL_SECONDS
    main()
