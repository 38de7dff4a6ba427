"""What a kubelet does to the container of a pod, done to a real worker: probes by the clock,
SIGTERM, the grace period, SIGKILL.

The probes are those of the rendered chart. As in a kubelet, the others wait for the startup probe;
the readiness probe is tried at once after it, then by its period; a container whose startup or
liveness probe fails too often would be started anew, which is an error here: no update may need it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.workers import WorkerError, WorkerProcess

ONCE = ("successThreshold", 1)
"""What the API server adds to a probe."""


class Probe(NamedTuple):
    """One probe of a container, with Kubernetes' defaults for what it does not say."""

    kind: str
    path: str
    period_s: float
    timeout_s: float
    failures: int

    @classmethod
    def of(cls, container: Mapping[str, Any], kind: str) -> Self:
        """A container's `startup`, `liveness` or `readiness` probe."""
        given = container[f"{kind}Probe"]
        known = {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold"}
        given = {name: value for name, value in given.items() if (name, value) != ONCE}
        assert given.keys() <= known, f"{given.keys() - known} of a {kind} probe is not played here"
        return cls(
            kind,
            given["httpGet"]["path"],
            given.get("periodSeconds", 10),
            given.get("timeoutSeconds", 1),
            given.get("failureThreshold", 3),
        )

    def passes(self, port: int) -> bool:
        """Ask once: any answer of 200 to 399 in time is a success."""
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(
                f"http://127.0.0.1:{port}{self.path}", timeout=self.timeout_s
            ) as answer,
        ):
            return bool(200 <= answer.status < 400)
        return False


class Replaced(NamedTuple):
    """How a pod was replaced: seconds until its process ended, and until its successor was started
    up and ready by the probes.
    """

    name: str
    exit_code: int
    stop_s: float
    startup_s: float
    ready_s: float


class Kubelet:
    """One container, its process and its probes, in a thread of their own from `start`
    to `stop`.
    """

    def __init__(
        self, name: str, process: WorkerProcess, container: Mapping[str, Any], grace_s: float
    ) -> None:
        self.name = name
        self.process = process
        self.ready = False
        self._probes = [Probe.of(container, kind) for kind in ("startup", "liveness", "readiness")]
        self._grace_s = grace_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._fault: str | None = None
        self.startup_s = self.ready_s = 0.0

    def start(self) -> None:
        """Start the container and its probes."""
        self.ready = False
        self._over = threading.Event()
        self.process.start()
        self._thread = threading.Thread(
            target=self._watch, args=(time.monotonic(), self._over), daemon=True
        )
        self._thread.start()

    def wait_ready(self) -> None:
        """Until its pod is ready."""
        eventually(
            lambda: self.healthy() and self.ready, lambda: f"{self.name}\n{self.process.log_end()}"
        )

    def healthy(self) -> bool:
        """True; WorkerError when the kubelet would have started the container anew by now."""
        if self._fault is not None:
            raise WorkerError(f"{self.name}: {self._fault}\n{self.process.log_end()}")
        return True

    def stop(self) -> tuple[int, float]:
        """SIGTERM, and SIGKILL after the grace period, which is an error; the exit code, and the
        seconds it took.
        """
        self._over.set()
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)
        self.healthy()
        self.ready = False
        since_s = time.monotonic()
        code = self.process.terminate(self._grace_s)
        return code, time.monotonic() - since_s

    def replace(self, away_s: float) -> Replaced:
        """Stop it, start it again `away_s` after its end, and wait until it is ready."""
        code, stop_s = self.stop()
        time.sleep(away_s)
        self.start()
        self.wait_ready()
        return Replaced(self.name, code, stop_s, self.startup_s, self.ready_s)

    def _watch(self, started_s: float, over: threading.Event) -> None:
        startup, *others = self._probes
        if not self._repeat(startup, over, until=lambda passed: passed):
            return
        self.startup_s = time.monotonic() - started_s
        tries = [
            threading.Thread(
                target=self._repeat, args=(probe, over, self._noted(probe, started_s)), daemon=True
            )
            for probe in others
        ]
        for one in tries:
            one.start()
        for one in tries:
            one.join()

    def _noted(self, probe: Probe, started_s: float) -> Callable[[bool], bool]:
        def note(passed: bool) -> bool:
            if probe.kind == "readiness" and passed and not self.ready:
                self.ready_s = time.monotonic() - started_s
                self.ready = True
            return False

        return note

    def _repeat(self, probe: Probe, over: threading.Event, until: Callable[[bool], bool]) -> bool:
        """Try by the clock until `until` is told a result that it likes; False when it is over
        before, or failed too often.
        """
        failed, due_s = 0, time.monotonic()
        while not over.wait(max(0.0, due_s - time.monotonic())):
            passed = probe.passes(self.process.web_port)
            if over.is_set():
                return False
            failed = 0 if passed else failed + 1
            if until(passed):
                return True
            if failed >= probe.failures:
                if probe.kind != "readiness":
                    self._fault = f"the {probe.kind} probe failed {failed} times"
                    return False
                self.ready = False
            due_s = max(due_s + probe.period_s, time.monotonic())
        return False
