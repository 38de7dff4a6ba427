"""One Kafka node as a process, started from the jars that `pom.xml` names; `broker.py` and
`cluster.py` make Kafkas of it.

Maven resolves the jars once into `.cache/kafka/<hash of the pom>`; after that a node needs Java
alone and is up in about four seconds. Every node has a directory and ports of its own, and comes
back on the same ports and data after `stop()` or `kill()`: that is what the fault tests need.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.harness.eventually import NotInTime, eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import Process

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "kafka"
VERSION = os.environ.get("KAFKA_VERSION", "")
"""Of the brokers; empty: that of `pom.xml`."""
JAVA_MAJOR = 17
INSTALL = "apt-get install openjdk-17-jre-headless maven"

_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
# each process of a test run has its own
_PORTS = set(range(20_000, 32_000)[_PROCESS :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))])
# those that somebody of this process has in mind, and may not listen on yet
_GIVEN: set[int] = set()


class BrokerError(RuntimeError):
    """The broker, its jars or its tools could not be had; the message has the reason and the log's
    end.
    """


def missing_tools() -> list[str]:
    """What this machine lacks to run a broker, in words; empty when nothing does."""
    java = [] if _java_major() >= JAVA_MAJOR else [f"Java {JAVA_MAJOR} or newer (java)"]
    return java + ([] if shutil.which("mvn") else ["Maven (mvn)"])


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


def jars(pom: Path = POM, version: str = "") -> Path:
    """The folder with the jars that `pom` names, those of Kafka in this version; Maven fills it on
    the first call. A half-filled folder is never seen.
    """
    folder = CACHE / hashlib.sha256(pom.read_bytes() + version.encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="resolving-") as scratch:
        lib = Path(scratch) / "lib"
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
        command += [f"-Dkafka.version={version}"] if version else []
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


class KafkaNode(Process):
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
        super().__init__(directory / "broker.log")
        self.directory = directory
        self._dumped = directory / "classes.jsa"
        self.number = int(settings["node.id"])
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._settings = {"log.dirs": str(directory / "data"), **settings}
        self._cluster_id = cluster_id
        self._heap_mib = heap_mib
        self.environment: dict[str, str] = {}
        """Environment variables of its next start, besides this process's."""

    @property
    def crashed(self) -> bool:
        """Whether it ended and nobody ended it."""
        return self.exit_code is not None

    def start(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Start, or start again on the same ports and data; return when it serves requests."""
        self.launch()
        self.wait_until_it_serves(timeout_s)

    def launch(self) -> None:  # type: ignore[override]
        """Start it and wait for nothing: one of several serves only once there is a
        quorum of them.
        """
        properties = self.directory / "server.properties"
        if not properties.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text(
                "".join(f"{name}={value}\n" for name, value in self._settings.items())
            )
            self._format(properties)
        archive = jars(version=VERSION).with_suffix(".jsa")
        classes = f"-XX:SharedArchiveFile={archive}"
        if not archive.exists():
            classes = f"-XX:ArchiveClassesAtExit={self._dumped}"
        super().launch(self._java(classes, "kafka.Kafka", str(properties)), self._complete())

    def _format(self, properties: Path) -> None:
        """Format its storage: a copy of what Kafka's tool, a Java of its own, once made for another
        node, under this one's names.
        """
        data = Path(self._settings["log.dirs"])
        formatted = jars(version=VERSION).with_suffix(".data")
        if not formatted.is_dir():
            tool = ["kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c"]
            if self._run(*tool, str(properties)):
                raise BrokerError(f"the broker's storage could not be formatted\n{self.log_end()}")
            with (
                tempfile.TemporaryDirectory(dir=CACHE) as scratch,
                contextlib.suppress(OSError),  # another process was faster
            ):
                shutil.copytree(data, Path(scratch) / "data").rename(formatted)
        shutil.copytree(formatted, data, dirs_exist_ok=True)
        names = {"cluster.id": self._cluster_id, "node.id": self.number}
        names |= {"directory.id": new_cluster_id(), "version": 1}
        (data / "meta.properties").write_text("".join(f"{k}={v}\n" for k, v in names.items()))

    def wait_until_it_serves(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Return when it serves requests; it is killed where it does not, and that is an error."""
        try:
            eventually(self._answers, self.log_end, timeout_s=timeout_s)
        except NotInTime as late:
            self.kill()
            raise BrokerError(f"the broker did not answer in time\n{self.log_end()}") from late
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Stop in an orderly way; kill what does not. Nothing happens when it is not running.

        The first leaves its classes to the next, who serve after half the processor time.
        """
        self._end(signal.SIGTERM, timeout_s)
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            moved = Path(shutil.move(self._dumped, scratch))
            moved.replace(jars(version=VERSION).with_suffix(".jsa"))

    def kill(self) -> None:
        """`kill -9`. The data stays, as after a power cut of the process."""
        self._end(signal.SIGKILL, PATIENCE_SECONDS)

    def set_producer_quota(self, client_id: str, bytes_a_second: int) -> None:
        """From now on the producers with this client id may send so much; the rest waits."""
        tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", self.address, "--alter"]
        entity = ["--entity-type", "clients", "--entity-name", client_id]
        quota = ["--add-config", f"producer_byte_rate={bytes_a_second}"]
        if self._run(*tool, *entity, *quota):
            raise BrokerError(f"the quota could not be set\n{self.log_end()}")

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            *("java", f"-Xmx{self._heap_mib}m", "-XX:+UseSerialGC", *java_options),
            *("-cp", f"{jars(version=VERSION)}/*"),
            # a killed broker leaves its unpacked libraries behind
            f"-Djava.io.tmpdir={self.directory}",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            *(main, *arguments),
        ]

    def _complete(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _run(self, main: str, *arguments: str) -> int:
        """The exit code of one of Kafka's tools, whose words go to the node's log."""
        tool = Process(self.log_path)
        tool.launch(self._java(main, *arguments), self._complete())
        return tool.wait()

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

    def _answers(self) -> bool:
        if not self.alive:
            raise BrokerError(f"the broker ended with {self.exit_code}\n{self.log_end()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        with contextlib.suppress(KafkaException):
            asked = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            return self.number in asked.list_topics(timeout=5).brokers
        return False
