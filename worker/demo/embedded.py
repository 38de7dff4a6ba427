"""A worker on an embedded broker, for the demo and for `serve`: a child process with state and log
in a folder of its own, and metrics over HTTP.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.request import HTTPHandler, OpenerDirector

from worker.errors import Crash, SetupError
from worker.kafka.clients import KafkaClients
from worker.kafka.topics import topic_specs
from worker.settings import Settings
from worker.settings.environment import environment_with

# A producer that has a Kafka broker in threads of its library: librdkafka's mock cluster.
BROKER: Final = {"test.mock.num.brokers": 1, "partitioner": "murmur2_random", "linger.ms": 5}
COUNTS_SECONDS: Final = 0.2  # seconds between two requests for the worker's metrics
STILL_SECONDS: Final = 90  # seconds without progress before it counts as stalled
STOP_SECONDS: Final = 30
_LOG_LINES: Final = 15
_ERROR: Final = "coversumm-worker: error: "
# Without redirects and exceptions for refusals, which would have to be closed.
_HTTP: Final = OpenerDirector()
_HTTP.add_handler(HTTPHandler())
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


class EmbeddedWorker(contextlib.AbstractContextManager["EmbeddedWorker"]):
    """A broker, and a `run` with these settings on it; a context manager that ends both.

    `sent`: events so far. `moved_at`: time of the last progress; to set it puts off `observe`'s
    Crash.
    """

    def __init__(self, directory: Path, settings: Settings) -> None:
        """`directory`: removed by the worker if this process is killed. Raises SetupError."""
        settings = replace(settings, data_dir=directory / "state")
        self._producer = KafkaClients(settings).producer(BROKER)
        for spec in topic_specs(settings).values():  # a lookup creates a topic, of 4 partitions
            brokers = self._producer.list_topics(spec.name, STILL_SECONDS).brokers
        servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers.values())
        self.settings = replace(settings, bootstrap_servers=servers)
        self.url = f"{settings.local_url}/"
        self.sent = 0
        self.moved_at = time.monotonic()
        self._counts: dict[str, float] = {}
        self._count_at = 0.0
        self._seen: tuple[object, ...] = ()
        self._log = directory / "worker.log"
        own = {"TMPDIR": str(directory)}  # libraries leave files there
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "worker.cli.child", str(directory)],
                env=environment_with(self.settings.environment() | own),
                stdin=subprocess.PIPE,  # never written to; it closes when this process is gone
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which stops the worker
            )

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.kill()  # nothing of it is kept
        self._process.wait()
        self._process.stdin.close()

    def stop(self) -> None:
        """Stop the worker by SIGTERM. Raises Crash if it does not end with 0 in time."""
        self.check()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        if (code := self._process.poll()) != 0:
            raise Crash(f"the worker did not stop in order ({code}): {self.last_words()}")

    def check(self) -> None:
        """Raise SetupError or Crash if the process has ended."""
        code = self._process.poll()
        if code == SetupError.exit_code:
            raise SetupError(self.last_words())
        if code is not None:
            raise Crash(f"the worker ended with exit code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """The error that it ended with, else the last lines of its log."""
        lines = self._log.read_text(errors="replace").splitlines()
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        last = errors[-1:] or lines[-_LOG_LINES:]
        return " | ".join(last) or "it did not say anything"

    def get(self, path: str) -> bytes | None:
        """The body of its answer; None if that is no success, or if it does not answer."""
        self.check()
        with contextlib.suppress(OSError), _HTTP.open(self.url + path, timeout=5) as answer:
            return bytes(answer.read()) if answer.status == 200 else None
        return None

    def send(self, key: bytes, value: bytes) -> None:
        """Send an event to the input topic."""
        self._producer.produce(self.settings.input_topic, value, key)
        self.sent += 1

    def observe(self, *more: object) -> None:
        """Renew the counts. Raises Crash if neither events nor `more` move for STILL_SECONDS."""
        self._producer.poll(0)
        now = time.monotonic()
        if now >= self._count_at:
            self._count_at = now + COUNTS_SECONDS
            counts: dict[str, float] = {}  # summed over all labels
            for name, value in _SAMPLE.findall((self.get("metrics") or b"").decode()):
                counts[name] = counts.get(name, 0.0) + float(value)
            self._counts = counts or self._counts
        seen = self.count("events"), *more
        if seen != self._seen:
            self._seen, self.moved_at = seen, now
        elif now - self.moved_at > STILL_SECONDS:
            raise Crash(f"nothing happened for {STILL_SECONDS} s: {self.last_words()}")

    def count(self, metric: str) -> int:
        """A counter of the worker, such as `events`: those it has processed."""
        return int(self._counts.get(f"coversumm_{metric}_total", 0))
