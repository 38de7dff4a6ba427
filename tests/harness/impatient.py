"""The worker with a Faust whose minutes are seconds: what it complains of after five minutes, it
complains of at once.

python -m tests.harness.impatient run
"""

from __future__ import annotations

from typing import Any

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from worker.cli import main
from worker.stream.faust.consumer import GuardedConsumer

GRACE_SECONDS = 0.5
"""In place of Faust's five minutes for fetches, streams and commits."""
LOOK_SECONDS = 0.2
"""How often Faust looks, in place of every 12.5 s: two and a half commit intervals."""


def shorten() -> None:
    """Let Faust look often, and be patient for no longer than its grace time."""
    patient = AIOKafkaConsumerThread.__post_init__
    begin = GuardedConsumer.on_init

    def impatient(self: Any) -> None:
        patient(self)
        for name in ("fetch_request", "fetch_response", "stream", "commit"):
            setattr(self, f"tp_{name}_timeout_secs", GRACE_SECONDS)

    def often(self: Any) -> None:
        begin(self)
        self.commit_interval = LOOK_SECONDS / 2.5

    AIOKafkaConsumerThread.__post_init__ = impatient
    GuardedConsumer.on_init = often  # type: ignore[method-assign]


if __name__ == "__main__":
    shorten()
    main()
