"""The upgrades of docs/upgrade.md, by its own commands, under load: real workers on a real Kafka,
in the pods that a real API server, its controllers and helm decide about.

    python -m tests.deploy.cluster.upgrade [--rate 40] [--only NAME ...] [--out FILE]

in place    from the chart and code of the earliest build that can roll to this one, back, and on
            again: one pod after the other
beside      from an earlier build with another splitter: the check before an upgrade refuses it,
            a second release replays and resumes, consumers switch, the first release goes

Producers send all the time, and consumers read committed messages. At the end the verifier compares
every message with brute force; that of the earlier build, in its own checkout, judges what that
build published. The result goes to `tests/bench/results/upgrade.json`; the exit code is 1 when
something was lost, repeated or wrong, or a pod was replaced more often than asked.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from docs.build.render import ROOT
from tests.bench.machine import began, command_line
from tests.bench.worker.contenders import contenders
from tests.deploy.chart import RELEASE
from tests.deploy.cluster.control_plane import ControlPlane, Refused
from tests.deploy.cluster.node import Node
from tests.deploy.cluster.release import ENOUGH, PODS, Release, deleted
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.load import HashedVectors, Sent, SteadyLoad, read_reviews, rounds
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.pauses import APPENDED, longest, read_pauses
from tests.harness.record import RECORDS, Row, finish
from tests.harness.scenario import judge
from tests.harness.topics import consumer, partitions_of, read_topic
from tests.harness.workers import COMMAND, Pipeline, run_command

RESULTS = RECORDS / "upgrade.json"
ROLLS, OTHER_SPLITTER = "6bc0fed", "23dcc19"
"""The earliest build that shares its state with this one, and one that does not."""
PARTITIONS, DIMENSION = 6, 16
GROUP, INPUT = "coversumm-worker", "marketplace.reviews.v1"
OUTPUT, LETTERS = "marketplace.review-summaries.v1", f"{INPUT}.dlq"
NEXT_GROUP = f"{GROUP}-replay-epoch-2"
NEXT_OUTPUT, NEXT_LETTERS = f"{OUTPUT}.epoch-2", f"{NEXT_GROUP}-dlq"
CALM_SECONDS = 5.0
"""Of load before an upgrade, and after it."""


def commands(section: str) -> list[str]:
    """The lines for a shell in a section of docs/upgrade.md."""
    text = (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8")
    own = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return "".join(re.findall(r"^```sh\n(.*?)^```", own, re.M | re.S)).splitlines()


class Reader:
    """A consumer of a topic of summaries, from its beginning, that reads what is committed.

    Attributes:
        last: the last value of each key, without those whose last one is null.
        ids: how often each message id came.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self.last: dict[bytes, bytes] = {}
        self.ids: Counter[bytes] = Counter()
        self._over = threading.Event()
        self._client = consumer(servers, f"reader-of-{topic}")
        partitions = partitions_of(self._client, topic)
        self._client.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Read no more."""
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        self._client.close()

    def _read(self) -> None:
        while not self._over.is_set():
            for record in self._client.consume(1000, 0.1):
                if record.error() is not None:
                    continue  # the end of a partition
                self.ids[dict(record.headers())["ce_id"]] += 1
                if record.value() is None:
                    self.last.pop(record.key(), None)
                else:
                    self.last[record.key()] = record.value()


@dataclass
class Cluster:
    """A namespace with its node, on a Kafka of its own, under load."""

    plane: ControlPlane
    release: Release
    node: Node
    broker: KafkaBroker
    folder: Path
    tree: Path
    rate: float
    facts: bool = False
    """Whether producers send fields that make the state's format newer."""
    faults: list[str] = field(default_factory=list)

    def events(self) -> Iterator[Sent]:
        """Events as all builds read them, until `facts`."""
        for sent in rounds(read_reviews(), HashedVectors(DIMENSION)):
            yield sent if self.facts else sent._replace(value=without_facts(sent.value))

    @contextmanager
    def load(self) -> Iterator[None]:
        """Producers, during the block."""
        sending = SteadyLoad(self.broker.bootstrap_servers, INPUT, self.stream, self.rate)
        try:
            time.sleep(CALM_SECONDS)
            yield
            time.sleep(CALM_SECONDS)
        finally:
            sending.end()
        self.node.check()

    def __post_init__(self) -> None:
        self.stream = self.events()

    def helm(self, *words: str | Path) -> str:
        return self.plane.helm("--namespace", self.release.namespace, *words)

    def run(self, line: str) -> str:
        """A command of the page; what it printed. Helm waits until all is ready."""
        print(line, file=sys.stderr, flush=True)
        words = shlex.split(line)
        words[words.index("--namespace") + 1] = self.release.namespace
        match words:
            case ["helm", verb, *rest]:
                waits = () if verb in ("test", "uninstall") else ENOUGH
                rest = [str(self.folder / one) if one == "values.yaml" else one for one in rest]
                done = self.plane.helm(verb, *rest, *waits)
            case ["kubectl", "--namespace", _, "exec", pod, "--", *command]:
                done = self._exec(pod, command)
            case ["kubectl", "--namespace", _, "logs", job]:
                name = job.removeprefix("job/")
                done = "".join(log for pod, log in self.node.logs.items() if pod.startswith(name))
            case ["kubectl", *rest]:
                done = self.plane.kubectl(*rest)
            case _:
                raise AssertionError(line)
        self.node.check()
        return done

    def refused(self, line: str) -> str:
        """What a command says that must fail."""
        try:
            return self.run(line) and "it did not fail"
        except Refused as cause:
            return str(cause)

    def promote(self, line: str) -> None:
        """Ask until consumers can switch: both builds are under way, so a summary may differ for a
        moment.
        """
        said = ""

        def passes() -> bool:
            nonlocal said
            said = self.run(line)
            return bool(json.loads(said.splitlines()[-1])["ok"])

        eventually(passes, lambda: said, every_s=1)

    def _exec(self, pod: str, words: list[str]) -> str:
        """A command in the pod of a worker: its code, with its environment and what `env` sets."""
        worker = self.node.workers[pod]
        given = {}
        if words[0] == "env":
            at = words.index("coversumm-worker")
            given, words = dict(one.split("=", 1) for one in words[1:at]), words[at:]
        assert words[0] == "coversumm-worker"
        done = run_command(
            *words[1:],
            environment=worker.environment | given,
            cwd=Path(worker.environment.get("BENCH_CHECKOUT", ROOT)),
            program=COMMAND,
        )
        assert done.stdout, done.stderr
        return done.stdout

    def replaced(self, upgrade: Callable[[], object]) -> list[str]:
        """The workers that an upgrade replaced, in their order."""
        with self.release.watched() as told:
            upgrade()
        return deleted(told)

    def pipeline(self, name: str, output: str, letters: str, **more: Any) -> Pipeline:
        """What a group of workers left, to be judged once they ended."""
        settings = {"COVERSUMM_DIMENSION": str(DIMENSION), **more.pop("settings", {})}
        topics = {"input": INPUT, "output": output, "dlq": letters}
        return Pipeline(self.broker, name, self.folder, settings=settings, topics=topics, **more)


def without_facts(value: bytes | None) -> bytes | None:
    """An event without `verified`."""
    return value and re.sub(rb'"verified": (true|false|null), ', b"", value)


@contextmanager
def cluster(plane: ControlPlane, folder: Path, commit: str, rate: float) -> Iterator[Cluster]:
    """A release of an earlier commit, three workers ready, in a namespace of its own."""
    with ExitStack() as stack:
        folder.mkdir()
        _, earlier = stack.enter_context(contenders(commit, folder))
        tree = earlier.checkout
        assert tree is not None
        broker = stack.enter_context(KafkaBroker(folder / "broker"))
        broker.create_topic(INPUT, PARTITIONS, APPENDED)
        values = {
            "kafka": {"bootstrapServers": broker.bootstrap_servers},
            "commandLine": {"EMBEDDER": "none", "DIMENSION": DIMENSION},
        }
        (folder / "values.yaml").write_text(json.dumps(values))
        release = Release(plane, f"processes-{commit}")
        trees = {commit: tree, "0.2.0": None, "1.0.0": None}
        node = stack.enter_context(Node(plane, release.namespace, folder / "pods", trees))
        made = Cluster(plane, release, node, broker, folder, tree, rate)
        given = ("--values", folder / "values.yaml", "--set", f"imageTag={commit}")
        made.helm("install", RELEASE, tree / "deploy" / "chart", *given, *ENOUGH)
        yield made


def in_place(site: Cluster, row: Row) -> dict[str, Any]:
    """Roll to this build, back, and on again."""
    upgrade, test, back, test_again = commands("Rolling")
    claims = site.release.claims()
    with site.load():
        began_s = time.time()
        replaced = site.replaced(lambda: site.run(upgrade))
        site.run(test)
        site.replaced(lambda: site.run(back))
        site.run(test_again)
        site.run(upgrade)
        seconds = time.time() - began_s
        site.facts = True  # no earlier worker is left
    assert replaced == PODS[::-1], replaced
    assert site.release.claims() == claims
    left = site.pipeline(GROUP, OUTPUT, LETTERS, workers=list(site.node.workers.values()))
    left.wait_caught_up()
    site.run(f"helm uninstall {RELEASE} --namespace reviews")
    ended(site, left)
    judge(left, row)
    return {"seconds": round(seconds, 1), "pause_s": longest_pause(site)}


def beside(site: Cluster, row: Row) -> dict[str, Any]:
    """A second release with a new epoch; consumers switch, and may go back."""
    refused, logs, *steps, promote = commands("A new version with a new epoch")
    (back,), goes = commands("And back"), commands("The old build goes")
    uids = site.release.uids()
    servers = site.broker.bootstrap_servers
    with site.load():
        began_s = time.time()
        before = Reader(servers, OUTPUT)
        assert "pre-upgrade hooks failed" in site.refused(refused)
        assert "splitter" in site.run(logs)
        for step in steps:
            site.run(step)
        assert uids.items() <= site.release.uids().items(), "the first release's pods changed"
        site.promote(promote)
        after = Reader(servers, NEXT_OUTPUT)
        seconds = time.time() - began_s
        site.promote(back)
    old, new = (
        site.pipeline(GROUP, OUTPUT, LETTERS, tree=site.tree),
        site.pipeline(NEXT_GROUP, NEXT_OUTPUT, NEXT_LETTERS, settings={"COVERSUMM_EPOCH": "2"}),
    )
    for name, worker in site.node.workers.items():
        (old if name in PODS else new).workers.append(worker)
    for one in (old, new):
        one.wait_caught_up()
    pause_s = longest_pause(site)
    for step in goes:
        site.run(step)
    ended(site, old)
    judge(old, earlier := Row("beside, the earlier build"))
    before.end()
    with site.load():
        site.facts = True
    new.wait_caught_up()
    site.run(f"helm uninstall {RELEASE}-2 --namespace reviews")
    ended(site, new)
    judge(new, row)
    after.end()
    row.repeated += sum(count - 1 for one in (before, after) for count in one.ids.values())
    last = {one.key: one.value for one in read_topic(servers, NEXT_OUTPUT)}
    row.wrong += after.last != {key: value for key, value in last.items() if value is not None}
    return {
        "seconds": round(seconds, 1),
        "pause_s": pause_s,
        "earlier": {name: getattr(earlier, name) for name in ("events", *COUNTED)},
    }


COUNTED = ("lost", "repeated", "wrong")
UPGRADES = {"in place": (ROLLS, in_place), "beside": (OTHER_SPLITTER, beside)}


def longest_pause(site: Cluster) -> float:
    """Seconds that a partition of the first release's group waited for a commit at most."""
    found = read_pauses(site.broker.bootstrap_servers, GROUP, INPUT)
    return round(max(longest(found).values()), 1)


def ended(site: Cluster, group: Pipeline) -> None:
    """Wait until the workers of a group have ended."""
    for worker in group.workers:
        assert worker.wait() == 0, worker.log_end()
    site.node.check()


def main() -> int:
    """Run, print, write."""
    parser = command_line(__doc__, RESULTS)
    parser.add_argument("--rate", type=float, default=40.0, help="events a second")
    parser.add_argument("--only", nargs="+", choices=UPGRADES, default=list(UPGRADES))
    given = parser.parse_args()
    record, rows = began("tests.deploy.cluster.upgrade"), []
    with tempfile.TemporaryDirectory() as scratch, ControlPlane(Path(scratch) / "plane") as plane:
        for name in given.only:
            commit, upgrade = UPGRADES[name]
            folder = Path(scratch) / name.replace(" ", "-")
            with cluster(plane, folder, commit, given.rate) as site:
                row = Row(name)
                measured = upgrade(site, row)
            counted = {one: getattr(row, one) for one in ("events", *COUNTED)}
            rows.append({"upgrade": name, "commit": commit, **counted, **measured})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    sums = {name: sum(row[name] for row in rows) for name in ("events", *COUNTED)}
    faults = [f"{name}: {sums[name]}" for name in COUNTED if sums[name]]
    return finish(given.out, record | sums | {"rows": rows}, faults)


if __name__ == "__main__":
    sys.exit(main())
