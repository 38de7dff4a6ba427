"""One Kafka node as a process, started from the jars that `pom.xml` names; `broker.py` and
`cluster.py` make Kafkas of it.

Maven resolves the jars once into `.cache/kafka/<hash of the pom>`; after that a node needs Java
alone and is up in about four seconds. Every node has a directory and ports of its own, and comes
back on the same ports and data after `stop()` or `kill()`: that is what the fault tests need.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.harness.patience import PATIENCE_SECONDS

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "kafka"
JAVA_MAJOR = 17
INSTALL = "apt-get install openjdk-17-jre-headless maven"

_LIBC = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec
_PR_SET_PDEATHSIG = 1
_SHARE = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)
# each process of a test run has its own
_PORTS = set(range(20_000, 32_000)[_SHARE[0] :: _SHARE[1]])
# those that somebody of this process has in mind, and may not listen on yet
_GIVEN: set[int] = set()


class BrokerError(RuntimeError):
    """The broker, its jars or its tools could not be had; the message has the reason and the log's
    end.
    """


def missing_tools() -> list[str]:
    """What this machine lacks to run a broker, in words; empty when nothing does."""
    missing = [] if shutil.which("mvn") else ["Maven (mvn)"]
    return [
        *([] if _java_major() >= JAVA_MAJOR else [f"Java {JAVA_MAJOR} or newer (java)"]),
        *missing,
    ]


def _java_major() -> int:
    """The major version of `java` on the path; 0 when there is none that runs."""
    try:
        shown = subprocess.run(
            ["java", "-version"], capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return int(found[1]) if found else 0


def jars(pom: Path = POM) -> Path:
    """The folder with the jars that `pom` names; Maven fills it on the first call. A half-filled
    folder is never seen.
    """
    folder = CACHE / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="resolving-") as scratch:
        lib = Path(scratch) / "lib"
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900
        )
        if done.returncode or not any(lib.glob("*.jar")):
            raise BrokerError(
                f"Maven could not resolve {pom}:\n{(done.stdout + done.stderr)[-4000:]}"
            )
        # Another process may have been faster; its folder is as good.
        with contextlib.suppress(FileExistsError, OSError):
            lib.rename(folder)
    return folder


def free_port() -> int:
    """A port nobody listens on, below the range that clients' sockets are given; each is given
    once.

    So nobody takes a stopped broker's port before it is back.
    """
    for port in random.SystemRandom().sample(sorted(_PORTS - _GIVEN), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _GIVEN.add(port)
                return port
    raise BrokerError("no free port between 20000 and 32000")


def die_with_parent() -> None:
    """In a child, before exec: be killed when the thread that started it ends, however it ends
    (Linux; elsewhere nothing).
    """
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def new_cluster_id() -> str:
    """What the nodes of one cluster have in common; its first byte is below 0x80, or the tool would
    take it for an option.
    """
    return base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


QUICK_START = ["-XX:TieredStopAtLevel=1"]
"""Java options of a short life: a third less processor time until a broker serves, and a slower
broker later.
"""
java_options: list[str] = []
"""More options of every Java that is started here."""


class KafkaNode:
    """One process, broker and controller in one.

    Args:
        directory: its data, its log, its configuration.
        settings: all of its server properties, `node.id` among them, but for where its data is.
        cluster_id: of `new_cluster_id`.
        port: of the plain listener at which it is asked whether it serves.
        heap_mib: of its Java.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        cluster_id: str,
        port: int,
        *,
        heap_mib: int,
    ):
        self.directory = directory
        self.number = int(settings["node.id"])
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.log_path = directory / "broker.log"
        self._settings = {"log.dirs": str(directory / "data"), **settings}
        self._cluster_id = cluster_id
        self._heap_mib = heap_mib
        self._process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        """Environment variables of its next start, besides this process's."""

    @property
    def pid(self) -> int:
        """The process id of the running node."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and not ended since; a paused one runs."""
        return self._process is not None

    @property
    def crashed(self) -> bool:
        """Whether it ended and nobody ended it."""
        process = self._process
        return process is not None and process.poll() is not None

    def start(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Start, or start again on the same ports and data; return when it serves requests."""
        self.launch(timeout_s)
        self.wait_until_it_serves(timeout_s)

    def launch(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Start it and wait for nothing: one of several serves only once there is a
        quorum of them.
        """
        assert self._process is None, "already running"
        properties = self.directory / "server.properties"
        if not properties.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text(
                "".join(f"{name}={value}\n" for name, value in self._settings.items())
            )
            tool = [
                "kafka.tools.StorageTool",
                "format",
                "-t",
                self._cluster_id,
                "-c",
                str(properties),
            ]
            if self._java(*tool).wait(timeout_s):
                raise BrokerError(f"the broker's storage could not be formatted\n{self.log_end()}")
        self._process = self._java("kafka.Kafka", str(properties))

    def wait_until_it_serves(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Return when it serves requests; it is killed where it does not, and that is an error."""
        try:
            self._wait_until_it_answers(time.monotonic() + timeout_s)
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Stop in an orderly way; kill what does not. Nothing happens when it is not running."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """`kill -9`. The data stays, as after a power cut of the process."""
        self._end(signal.SIGKILL, PATIENCE_SECONDS)

    def pause(self) -> None:
        """SIGSTOP: connections stay, and nothing answers on them."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def log_end(self) -> str:
        """The end of its log, for messages."""
        return (
            self.log_path.read_text(errors="replace")[-4000:]
            if self.log_path.exists()
            else "(no log)"
        )

    def set_producer_quota(self, client_id: str, bytes_a_second: int) -> None:
        """From now on the producers with this client id may send so much; the rest waits."""
        tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", self.address, "--alter"]
        entity = ["--entity-type", "clients", "--entity-name", client_id]
        quota = ["--add-config", f"producer_byte_rate={bytes_a_second}"]
        if self._java(*tool, *entity, *quota).wait(PATIENCE_SECONDS):
            raise BrokerError(f"the quota could not be set\n{self.log_end()}")

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", f"-Xmx{self._heap_mib}m", "-XX:+UseSerialGC", *java_options]
        command += ["-cp", f"{jars()}/*"]
        command += [
            # a killed broker leaves its unpacked libraries behind
            f"-Djava.io.tmpdir={self.directory}",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
        ]
        with self.log_path.open("ab") as log:
            # A session of its own: Ctrl-C at the tests must reach the workers' tests first, not the
            # broker.
            return subprocess.Popen(
                [*command, main, *arguments],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _end(self, how: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_SECONDS)

    def _wait_until_it_answers(self, deadline_s: float) -> None:
        assert self._process is not None
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                raise BrokerError(
                    f"the broker ended with {self._process.returncode}\n{self.log_end()}"
                )
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)):
                    time.sleep(0.1)
                    continue
            with contextlib.suppress(KafkaException):
                asked = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
                if self.number in asked.list_topics(timeout=5).brokers:
                    return
            time.sleep(0.1)
        raise BrokerError(f"the broker did not answer in time\n{self.log_end()}")
