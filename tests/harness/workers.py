"""Worker processes as an operator would run them, and what happens to them: `kill -9`, SIGSTOP,
SIGTERM, restarts.

`Pipeline` is one worker group with topics, application id and data directories of its own, so that
any number of them share a broker. Nothing here imports the worker: it is started as the installed
command and watched from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.harness import armed as armed_launcher
from tests.harness.broker import Kafka
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import Process, ProcessError, die_with_parent
from tests.harness.recovered import BY_HAND
from tests.harness.topics import committed_in, consumer, read_topic

COMMAND = [sys.executable, "-m", "worker"]
VERIFIER = [sys.executable, "-m", "tests.harness.verifier"]
ARMED_COMMAND = [sys.executable, "-m", armed_launcher.__name__]
ROOT = Path(__file__).parents[2]
RESTARTED = {3, -signal.SIGKILL}
"""Exit codes after which an operator's platform starts a worker again; any other is a finding."""


WorkerError = ProcessError


class WorkerProcess(Process):
    """One `coversumm-worker run` with its own data directory, web port and log.

    It is the command as it is installed; one that is `armed` takes orders besides
    (`tests.harness.armed`).
    """

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *,
        armed: bool = False,
        launcher: str | None = None,
        arguments: Sequence[str] = ("run",),
    ):
        super().__init__(directory / "worker.log")
        self.directory, self.name = directory, directory.name
        self._arguments = arguments
        self._command = ARMED_COMMAND if armed else COMMAND
        if launcher is not None:
            self._command = [sys.executable, "-m", launcher]
        self._order_path = directory / "order.json"
        self.web_port = free_port()
        self.data_dir = Path(environment.get("COVERSUMM_DATA_DIR", directory / "data"))
        self.environment = {
            "COVERSUMM_DATA_DIR": str(self.data_dir),
            "COVERSUMM_WEB_PORT": str(self.web_port),
            **({armed_launcher.VARIABLE: str(self._order_path)} if armed else {}),
            **environment,
        }
        self.exit_codes: list[int] = []
        directory.mkdir(parents=True, exist_ok=True)

    def start(self) -> Self:
        """Start it, or start it again on the same data."""
        if self.exit_code is not None:
            self.exit_codes.append(self.exit_code)
        command = [*self._command, *self._arguments]
        self.launch(command, clean_environment(self.environment), cwd=ROOT)
        return self

    def arm(self, order: armed_launcher.Order) -> None:
        """Order what is to happen at a step of its protocol; an order before that is forgotten."""
        order.give(self._order_path)

    def struck(self) -> bool:
        """Whether the last order struck. One that stopped it holds it as `pause()` does."""
        note = armed_launcher.struck_path(self._order_path)
        if not note.exists():
            return False
        order = armed_launcher.Order(**json.loads(note.read_text()))
        if order.pid is None and order.signal == signal.SIGSTOP:
            self.paused = True
        return True

    def wipe(self) -> None:
        """Remove its local state; it must have ended."""
        assert not self.alive, "still running"
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def terminate(self, timeout_s: float = PATIENCE_SECONDS) -> int:
        """SIGTERM; the exit code. One that does not end in time is killed, and that is an error."""
        if self.paused:
            self.resume()
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def ready(self) -> bool:
        """What `/readyz` says; False when nobody answers."""
        with contextlib.suppress(OSError), self.get("/readyz", timeout_s=2) as answer:
            return bool(answer.status == 200)
        return False

    def wait_ready(self, timeout_s: float = PATIENCE_SECONDS) -> float:
        """Seconds until `/readyz` said yes."""
        started_s = time.monotonic()

        def is_ready() -> bool:
            if not self.alive:
                raise WorkerError(
                    f"ended with {self.exit_code} before it was ready\n{self.log_end()}"
                )
            return self.ready()

        eventually(
            is_ready, lambda: f"not ready\n{self.log_end()}", timeout_s=timeout_s, every_s=0.05
        )
        return time.monotonic() - started_s

    def get(self, path: str, timeout_s: float = PATIENCE_SECONDS) -> Any:
        """An open HTTP answer of its web server; raises what urllib raises. It has a token and TLS
        if its settings have.
        """
        authority = self.environment.get("COVERSUMM_WEB_TLS_CA_LOCATION")
        scheme = "https" if authority else "http"
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.web_port}{path}")
        if token := self.environment.get("COVERSUMM_WEB_TOKEN"):
            request.add_header("Authorization", f"Bearer {token.split(',')[0]}")
        context = ssl.create_default_context(cafile=authority) if authority else None
        return urllib.request.urlopen(request, timeout=timeout_s, context=context)

    def metrics(self) -> dict[str, float]:
        """`/metrics` as a flat table, labels in the name."""
        with self.get("/metrics") as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def limit_hits(self) -> dict[str, float]:
        """How often each limit was hit, by its name, as its metrics say."""
        start, end = 'coversumm_limit_hits_total{limit="', '"}'
        return {
            name.removeprefix(start).removesuffix(end): value
            for name, value in self.metrics().items()
            if name.startswith(start)
        }

    def refused(self, *words: str, code: int = 2) -> str:
        """The one line, with these words, with which it ended by itself with `code`; started where
        it never was.
        """
        if not self.started:
            self.start()
        assert self.wait() == code, self.log_end()
        log = self.log_text()
        assert "Traceback" not in log, log
        lines = [line for line in log.splitlines() if line.startswith("coversumm-worker: error:")]
        assert len(lines) == 1, log
        for word in words:
            assert word in lines[0], lines[0]
        return lines[0]

    def refused_again(self, *words: str) -> None:
        """Start it: it must be `refused`. The log of an earlier life does not count."""
        self.log_path.unlink()
        self.start()
        self.refused(*words)

    def restored_rows(self) -> list[int]:
        """How many rows each restore of its lives took from the changelog, by its log."""
        return [rows for rows, _ in restores(self.log_text())]


def restores(log: str) -> list[tuple[int, float]]:
    """Rows and seconds of each restore in a log."""
    found = re.findall(r"restored ([\d,]+) rows? of [\d,]+ partitions? in ([\d.]+) s", log)
    return [(int(rows.replace(",", "")), float(seconds)) for rows, seconds in found]


@dataclass
class Pipeline:
    """One worker group on a broker: names, topics, workers, and the verifier over them."""

    broker: Kafka
    name: str
    directory: Path
    partitions: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)
    input_config: Mapping[str, str] = field(default_factory=dict)
    armed: bool = False
    launcher: str | None = None
    """A module that stands in for the command: it changes something from outside, and goes on as
    the command does.
    """
    workers: list[WorkerProcess] = field(default_factory=list)
    servers: Sequence[str] = ()
    """The bootstrap servers of each worker where they are not the same: there may be a proxy
    between.
    """
    restarted_codes: Container[int] = frozenset(RESTARTED)

    topics: Mapping[str, str] = field(default_factory=dict)
    """Of "input", "output" and "dlq" those whose names are other than the usual ones."""
    tree: Path = ROOT
    """The checkout whose verifier, and whose `verify`, judge the workers."""

    @property
    def input_topic(self) -> str:
        """Where the load goes."""
        return self.topics.get("input", f"{self.name}.reviews")

    @property
    def output_topic(self) -> str:
        """Where the summary changes come."""
        return self.topics.get("output", f"{self.name}.summaries")

    @property
    def dlq_topic(self) -> str:
        """Where the dead letters come."""
        return self.topics.get("dlq", f"{self.name}.dlq")

    @property
    def changelog_topic(self) -> str:
        """Faust's name for the changelog of the worker's table."""
        return f"{self.name}-entities-changelog"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of its workers, as environment variables."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
            "COVERSUMM_INPUT_TOPIC": self.input_topic,
            "COVERSUMM_OUTPUT_TOPIC": self.output_topic,
            "COVERSUMM_DLQ_TOPIC": self.dlq_topic,
            "COVERSUMM_FACETS_TOPIC": f"{self.name}.facets",
            "COVERSUMM_APP_ID": self.name,
            "COVERSUMM_WEB_BIND": "127.0.0.1",
            "COVERSUMM_EMBEDDER": "none",
            **self.settings,
        }

    def create_input(self) -> Self:
        """Create the input topic, which no worker does."""
        self.broker.create_topic(self.input_topic, self.partitions, self.input_config)
        return self

    def worker(self, name: str = "", **settings: str) -> WorkerProcess:
        """A further worker, not started; `settings` are COVERSUMM_ variables without the prefix."""
        extra = {f"COVERSUMM_{variable.upper()}": value for variable, value in settings.items()}
        label = name or f"worker-{len(self.workers)}"
        if self.servers:
            extra["KAFKA_BOOTSTRAP_SERVERS"] = self.servers[len(self.workers)]
        environment = {**self.environment, **extra}
        self.workers.append(
            WorkerProcess(
                self.directory / label, environment, armed=self.armed, launcher=self.launcher
            )
        )
        return self.workers[-1]

    def start(self, count: int = 1) -> list[WorkerProcess]:
        """Start so many further workers and wait until all are ready."""
        started = [self.worker().start() for _ in range(count)]
        for worker in started:
            worker.wait_ready()
        return started

    def restart(self, worker: WorkerProcess) -> None:
        """Start a worker again that ended by itself, as Kubernetes would.

        Only a crash or a kill is a reason to: 0 without SIGTERM, 1, 2 and 4 are findings.
        """
        if worker.exit_code not in self.restarted_codes:
            raise WorkerError(f"ended with {worker.exit_code}\n{worker.log_end()}")
        worker.start()

    def targets(self) -> dict[int, int]:
        """Partition -> the offset behind its last committed record: what the group has
        to commit.
        """
        last: dict[int, int] = {}
        for message in read_topic(self.broker.bootstrap_servers, self.input_topic):
            last[message.partition] = message.offset + 1
        return last

    def lag(self, targets: Mapping[int, int]) -> int:
        """Offsets between what is committed and `targets`."""
        with self._reader() as reader:
            return self._lag(reader, targets)

    def _reader(self) -> contextlib.closing[Consumer]:
        """A client of the group, which finds brokers again that were away."""
        options = {"reconnect.backoff.max.ms": 500}
        return contextlib.closing(consumer(self.broker.bootstrap_servers, self.name, **options))

    def _lag(self, reader: Consumer, targets: Mapping[int, int]) -> int:
        committed = committed_in(reader, self.input_topic)
        return sum(
            max(0, target - max(0, committed[partition])) for partition, target in targets.items()
        )

    def wait_caught_up(self, timeout_s: float = PATIENCE_SECONDS) -> float:
        """Seconds until everything in the input topic now is committed."""
        started_s = time.monotonic()
        targets = self.targets()

        def caught_up() -> bool:
            if not any(worker.alive for worker in self.workers):
                raise WorkerError("no worker is alive\n" + self.logs())
            return self._lag(reader, targets) == 0

        with self._reader() as reader:
            eventually(
                caught_up,
                lambda: f"lag {self._lag(reader, targets)}\n{self.logs()}",
                timeout_s=timeout_s,
                every_s=0.2,
            )
        return time.monotonic() - started_s

    def set_offsets(self, offsets: Mapping[int, int]) -> None:
        """Set the group's offsets, as an operator may, and say so in their metadata.

        A group with members refuses: it is asked again, for one that was killed is a member for a
        session.
        """
        client = consumer(self.broker.bootstrap_servers, self.name)
        wanted = [
            TopicPartition(self.input_topic, partition, offset, BY_HAND)
            for partition, offset in offsets.items()
        ]

        def set_now() -> bool:
            with contextlib.suppress(KafkaException):
                done = client.commit(offsets=wanted, asynchronous=False)
                return done is not None and not any(future.error for future in done)
            return False

        try:
            eventually(set_now, lambda: f"the group {self.name} does not let its offsets be set")
        finally:
            client.close()

    def stop(self) -> None:
        """SIGTERM to all that run; each must end with 0."""
        running = [worker for worker in self.workers if worker.alive]
        for worker in running:
            worker.wait_ready()  # one that is still starting has no handler yet, and just dies
        codes = [worker.terminate() for worker in running]
        if any(codes):
            raise WorkerError(f"ended with {codes} after SIGTERM\n{self.logs()}")

    def discard(self) -> None:
        """End all workers whatever state they are in."""
        for worker in self.workers:
            worker.discard()

    def logs(self) -> str:
        """The ends of all workers' logs."""
        return "\n".join(worker.log_end() for worker in self.workers)

    def verify(self, *, committed: bool = True, compacted: bool = False) -> dict[str, Any]:
        """The verifier's report; differences are an error that shows them."""
        report = self.report(committed=committed, compacted=compacted)
        if not report["ok"]:
            raise WorkerError(f"{json.dumps(report, indent=1)}\n{self.logs()}")
        return report

    def report(
        self, *, committed: bool = True, compacted: bool = False, timeout_s: float = 3600
    ) -> dict[str, Any]:
        """Run the verifier as a process of its own; its report, right or wrong.

        With `committed` the group must have committed the whole input, and the changelog is
        compared with it and, once all workers ended, with their local copies; a `compacted`
        changelog has no history to compare.
        """
        command = [
            "--bootstrap",
            self.broker.bootstrap_servers,
            "--input",
            self.input_topic,
            "--output",
            self.output_topic,
            "--dlq",
            self.dlq_topic,
        ]
        command += ["--group", self.name, "--changelog", self.changelog_topic] if committed else []
        if committed and not any(worker.alive for worker in self.workers):
            command += [
                "--data",
                *(str(worker.data_dir) for worker in self.workers if worker.data_dir.exists()),
            ]
        command += ["--compacted"] if compacted else []
        done = run_command(
            *command,
            environment=self.environment,
            cwd=self.tree,
            program=VERIFIER,
            timeout_s=timeout_s,
        )
        if done.returncode not in (0, 1) or not done.stdout:
            raise WorkerError(f"the verifier ended with {done.returncode}\n{done.stderr}")
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def verify_state(self, timeout_s: float = 600) -> None:
        """`coversumm-worker verify` over every data directory; the workers must have ended.

        Of a partition with a partial copy another copy must have been verified.
        """
        partial: set[int] = set()
        verified: set[int] = set()
        for worker in self.workers:
            done = run_command(
                "verify",
                "--json",
                environment=worker.environment,
                cwd=self.tree,
                timeout_s=timeout_s,
            )
            if done.returncode:
                raise WorkerError(
                    f"verify ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
                )
            partial |= {int(n) for n in re.findall(r"partition (\d+) .* partial", done.stderr)}
            verified |= {json.loads(line)["partition"] for line in done.stdout.splitlines()}
        if unseen := partial - verified:
            raise WorkerError(f"every copy of the partitions {sorted(unseen)} is partial")


@contextlib.contextmanager
def pipeline(broker: Kafka, name: str, directory: Path, **options: Any) -> Iterator[Pipeline]:
    """A pipeline with its input topic; whatever happens, no worker outlives the block."""
    site = Pipeline(broker, name, directory, **options).create_input()
    try:
        yield site
    finally:
        site.discard()


def run_command(
    *arguments: str,
    environment: Mapping[str, str],
    cwd: Path = ROOT,
    program: Sequence[str] = COMMAND,
    timeout_s: float = PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with these settings alone and no input."""
    return subprocess.run(
        [*program, *arguments],
        cwd=cwd,
        env=clean_environment(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        preexec_fn=die_with_parent,
    )


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with none of the worker's settings but those given."""
    foreign = ("COVERSUMM_", "KAFKA_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**inherited, **environment}
