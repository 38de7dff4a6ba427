"""A real Apache Kafka for the tests: one KRaft node, started from the jars that `pom.xml` names.

Maven resolves the jars once into `.cache/kafka/<hash of the pom>`; after that a broker needs Java alone and is up in
about four seconds. Every broker has a directory and ports of its own, so brokers never meet, and it comes back on the
same ports and data after `stop()` or `kill()`: that is what the fault tests need.

Run by itself it is a broker for the hand: `python -m tests.harness.broker`.
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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.patience import PATIENCE_SECONDS

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".cache" / "kafka"
JAVA_MAJOR = 17
INSTALL = "apt-get install openjdk-17-jre-headless maven"

_LIBC = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec
_PR_SET_PDEATHSIG = 1

# One node: every internal topic has one replica and few partitions; nothing waits for members or brokers that may come.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker is let in again when its last session has expired: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Timed-out transactions are looked for every 10 s by default; a dead worker's should not hold the readers that long.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    # The broker has a few cores at most; more cleaning and recovery threads only take them from the workers.
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}

# The transaction log wants three replicas and there is one broker: producing works, every transaction fails.
WITHOUT_TRANSACTIONS = {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}


class BrokerError(RuntimeError):
    """The broker, its jars or its tools could not be had; the message has the reason and the log's end."""


def missing_tools() -> list[str]:
    """What this machine lacks to run a broker, in words; empty when nothing does."""
    missing = [] if shutil.which("mvn") else ["Maven (mvn)"]
    return [*([] if _java_major() >= JAVA_MAJOR else [f"Java {JAVA_MAJOR} or newer (java)"]), *missing]


def _java_major() -> int:
    """The major version of `java` on the path; 0 when there is none that runs."""
    try:
        shown = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return int(found[1]) if found else 0


def jars() -> Path:
    """The folder with the broker's jars; Maven fills it on the first call. A half-filled folder is never seen."""
    folder = CACHE / hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="resolving-") as scratch:
        lib = Path(scratch) / "lib"
        command = ["mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
        if done.returncode or not any(lib.glob("kafka_*.jar")):
            raise BrokerError(f"Maven could not resolve {POM}:\n{(done.stdout + done.stderr)[-4000:]}")
        # Another process may have been faster; its folder is as good.
        with contextlib.suppress(FileExistsError, OSError):
            lib.rename(folder)
    return folder


def free_port() -> int:
    """A port nobody listens on, below the range that clients' sockets are given.

    So nobody takes a stopped broker's port before it is back.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise BrokerError("no free port between 20000 and 32000")


def die_with_parent() -> None:
    """In a child, before exec: be killed when the test process dies, however it dies (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class KafkaBroker:
    """One Kafka node on 127.0.0.1.

    Args:
        directory: its data, its log, its configuration.
        settings: server properties over the defaults above.
        heap_mib: of its Java.
        protocols: security protocols it is to speak besides PLAINTEXT, each on a port of its own (`addresses`).
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap_mib: int = 512,
        protocols: Iterable[str] = (),
    ):
        self.directory = directory
        self.port, controller_port = free_port(), free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.addresses = {protocol: f"127.0.0.1:{free_port()}" for protocol in protocols}
        listeners = [f"{name}://{address}" for name, address in self.addresses.items()]
        listeners.append(f"PLAINTEXT://{self.bootstrap_servers}")
        self.log_path = directory / "broker.log"
        self._heap_mib = heap_mib
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            **SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller_port}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(
                [
                    "CONTROLLER:PLAINTEXT",
                    "PLAINTEXT:PLAINTEXT",
                    *(f"{name}:{name}" for name in self.addresses),
                ]
            ),
            "log.dirs": str(directory / "data"),
            **(settings or {}),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self, timeout_s: float = PATIENCE_SECONDS) -> None:
        """Start, or start again on the same ports and data; return when it serves requests."""
        assert self._process is None, "already running"
        properties = self.directory / "server.properties"
        if not properties.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
            # A first byte below 0x80: the tool would take an id that begins with a dash for an option.
            cluster_id = base64.urlsafe_b64encode(b"k" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
            tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
            if self._java(*tool).wait(timeout_s):
                raise BrokerError(f"the broker's storage could not be formatted\n{self._log_end()}")
        self._process = self._java("kafka.Kafka", str(properties))
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

    def admin(self) -> AdminClient:
        """An admin client of this broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create one topic; return when the broker serves all its partitions, as whatever comes next expects."""
        admin = self.admin()  # its futures fail once it is collected
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        deadline_s = time.monotonic() + PATIENCE_SECONDS
        asked_before = False
        while True:
            try:
                admin.create_topics([topic], request_timeout=10)[name].result()
                break
            except KafkaException as cause:
                code = cause.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS and asked_before:
                    break
                # A broker that was paused has been seen to leave a request unanswered once it went on.
                if (
                    code not in {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
                    or time.monotonic() > deadline_s
                ):
                    raise
                asked_before = True
        self._wait_until_it_serves(admin, name, deadline_s)

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["java", f"-Xmx{self._heap_mib}m", "-XX:+UseSerialGC", "-cp", f"{jars()}/*"]
        command += [
            f"-Djava.io.tmpdir={self.directory}",  # a killed broker leaves its unpacked libraries behind
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
        ]
        with self.log_path.open("ab") as log:
            # A session of its own: Ctrl-C at the tests must reach the workers' tests first, not the broker.
            return subprocess.Popen(
                [*command, main, *arguments],
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

    def _wait_until_it_serves(self, admin: AdminClient, topic: str, deadline_s: float) -> None:
        """The controller makes a topic; the broker knows of it, and leads its partitions, a moment later."""
        while time.monotonic() < deadline_s:
            found = admin.list_topics(timeout=10).topics.get(topic)
            if found is not None and all(part.leader >= 0 for part in found.partitions.values()):
                return
            time.sleep(0.02)
        raise BrokerError(f"the topic {topic} was made and is not served\n{self._log_end()}")

    def _wait_until_it_answers(self, deadline_s: float) -> None:
        assert self._process is not None
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                raise BrokerError(f"the broker ended with {self._process.returncode}\n{self._log_end()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)):
                    time.sleep(0.1)
                    continue
            with contextlib.suppress(KafkaException):
                if self.admin().list_topics(timeout=5).brokers:
                    return
            time.sleep(0.1)
        raise BrokerError(f"the broker did not answer in time\n{self._log_end()}")

    def _log_end(self) -> str:
        return self.log_path.read_text(errors="replace")[-4000:] if self.log_path.exists() else "(no log)"


def main() -> None:
    """Run one broker until Enter or Ctrl-C, in a temporary directory."""
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(Path(scratch)) as broker:
        print(
            f"export KAFKA_BOOTSTRAP_SERVERS={broker.bootstrap_servers}   # log: {broker.log_path}",
            flush=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            signal.sigwait([signal.SIGINT, signal.SIGTERM]) if not sys.stdin.isatty() else input(
                "Enter stops it "
            )


if __name__ == "__main__":
    main()
