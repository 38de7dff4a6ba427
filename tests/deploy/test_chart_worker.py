"""A real worker with the environment that the chart gives it, as the user and on the topics of the
Strimzi examples.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from docs.build.chart import CHART, DEPLOY
from tests.deploy.chart import complaints, environment, facts_of, only, render, worker
from tests.harness.authorized import PASSWORD, USER, AuthorizedBroker, Rule
from tests.harness.debezium import deletions
from tests.harness.eventually import eventually
from tests.harness.load import Sent, send
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.process import die_with_parent
from tests.harness.topics import producer, read_topic
from tests.harness.workers import COMMAND, ROOT, WorkerProcess, clean_environment, pipeline
from worker.kafka.topics import topic_specs
from worker.settings import Settings

pytestmark = [pytest.mark.helm, pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

STRIMZI = DEPLOY / "strimzi"
FACETS = """
[[facet]]
name = "critics"
rating = { max = 2 }
"""
TOPICS = list(yaml.safe_load_all((STRIMZI / "topics.yaml").read_text()))
KAFKA_USER, REPLAYER = (
    yaml.safe_load((STRIMZI / f"{name}.yaml").read_text()) for name in ("user", "replayer")
)
LETTERS, BRIDGE = yaml.safe_load_all((STRIMZI / "bridge.yaml").read_text())
SOURCE = "shop.public.reviews"
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefix": ResourcePatternType.PREFIXED}
REVIEW = (
    b'{"type":"review.upserted","entity_id":"e","review_id":"r",'
    b'"sentences":[{"text":"Good.","embedding":[1.0,0.5]}]}'
)


def rules(of: Any = KAFKA_USER) -> list[Rule]:
    """What a KafkaUser may do, as Strimzi's user operator tells the broker."""
    return [
        Rule(
            KINDS[acl["resource"]["type"]],
            acl["resource"]["name"],
            AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
            PATTERNS[acl["resource"]["patternType"]],
        )
        for acl in of["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    ]


def needed(of: Any = KAFKA_USER) -> list[Rule]:
    """Without one of these it ends."""
    return [rule for rule in rules(of) if rule.operation is not AclOperation.DESCRIBE_CONFIGS]


class Deployed:
    """A broker with the topics of the examples, and the processes of a release on it."""

    def __init__(self, broker: AuthorizedBroker, directory: Path) -> None:
        self.broker = broker
        self._directory = directory
        self.port = free_port()
        facets = directory / "facets.toml"
        facets.write_text(FACETS)
        self._values: dict[str, Any] = {
            "kafka": {"bootstrapServers": broker.addresses["SASL_PLAINTEXT"]},
            "commandLine": {
                "DATA_DIR": str(directory / "data"),
                "DIMENSION": 2,
                "EMBEDDER": "none",
                "FACETS": str(facets),
                "SASL_MECHANISM": "PLAIN",
                "SASL_USERNAME": USER,
                "SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "WEB_BIND": "127.0.0.1",
                "WEB_PORT": self.port,
            },
            "secretRefs": {"SASL_PASSWORD": {"name": "worker", "key": "password"}},
        }
        self.objects = render(self._values)
        for topic in (*TOPICS, LETTERS):
            spec = topic["spec"]
            config = {
                name: str(value)
                for name, value in spec["config"].items()
                if not name.startswith("min.")
            }
            broker.create_topic(topic["metadata"]["name"], spec["partitions"], config)

    def variables(self, container: Any) -> dict[str, str]:
        """The environment of a container, with the password in it."""
        return environment(container, facts_of(0), {"worker/password": PASSWORD})

    def upgrade_check(self, **settings: Any) -> tuple[int, str]:
        """What the job before an upgrade to these settings comes to."""
        values = {**self._values, "commandLine": {**self._values["commandLine"], **settings}}
        (container,) = only(render(values), "Job", "-upgrade-check")["spec"]["template"]["spec"][
            "containers"
        ]
        done = subprocess.run(
            [*COMMAND, *container["args"]],
            cwd=ROOT,
            env=clean_environment(self.variables(container)),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return done.returncode, done.stderr

    def worker(self, name: str) -> WorkerProcess:
        """Another process of the first pod, not started."""
        made = WorkerProcess(self._directory / name, self.variables(worker(self.objects)))
        made.web_port = self.port
        return made

    def bridge(self, name: str) -> WorkerProcess:
        """A process of the bridge's deployment, not started."""
        port = free_port()
        own = {"enabled": True, "from": SOURCE, "commandLine": {"WEB_PORT": port}}
        objects = render({**self._values, "mapping": deletions(SOURCE), "bridge": own})
        (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        file = self._directory / "mapping.toml"
        kept = [manifest for manifest in objects if "helm.sh/hook" not in str(manifest["metadata"])]
        file.write_text(only(kept, "ConfigMap")["data"]["mapping.toml"])
        arguments = [
            str(file) if arg.endswith("/mapping.toml") else arg for arg in container["args"]
        ]
        made = WorkerProcess(self._directory / name, self.variables(container), arguments=arguments)
        made.web_port = port
        return made

    def replay(self, directory: Path, index: int) -> subprocess.Popen[str]:
        """A process of the replay's job, started."""
        own = {
            "enabled": True,
            "commandLine": {"EPOCH": 2, "DATA_DIR": str(directory), "WEB_PORT": free_port()},
        }
        objects = render({**self._values, "replay": own, "upgradeCheck": {"enabled": False}})
        (container,) = only(objects, "Job")["spec"]["template"]["spec"]["containers"]
        of_the_index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        facts = {**facts_of(0), "status.podIP": "127.0.0.1", of_the_index: str(index)}
        return subprocess.Popen(
            [*COMMAND, *container["args"]],
            cwd=ROOT,
            env=clean_environment(environment(container, facts, {"worker/password": PASSWORD})),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def send(self) -> None:
        """One review, and a record that is none."""
        sender = producer(self.broker.bootstrap_servers)
        for value in (REVIEW, b"nonsense"):
            sender.produce("marketplace.reviews.v1", key=b"e", value=value)
        assert sender.flush(PATIENCE_SECONDS) == 0

    def published(self) -> list[int]:
        """How many summaries and dead letters there are."""
        names = ("marketplace.review-summaries.v1", "marketplace.reviews.v1.dlq")
        return [len(read_topic(self.broker.bootstrap_servers, name)) for name in names]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    directory = tmp_path_factory.mktemp("deployed")
    with AuthorizedBroker(directory / "broker") as broker:
        made = Deployed(broker, directory)
        made.send()
        yield made


def test_the_examples_are_what_strimzi_takes() -> None:
    assert complaints([*TOPICS, KAFKA_USER, REPLAYER, LETTERS, BRIDGE]) == []


def test_the_examples_are_the_workers_topics() -> None:
    found = {topic["metadata"]["name"]: topic["spec"] for topic in TOPICS}
    specs = topic_specs(Settings(facets="preset:stays"))
    wanted = {spec.name: spec.config for spec in specs.values()}
    assert {
        name: {
            key: str(value) for key, value in spec["config"].items() if key != "min.insync.replicas"
        }
        for name, spec in found.items()
    } == wanted
    assert len({(spec["partitions"], spec["replicas"]) for spec in found.values()}) == 1


@pytest.mark.long
def test_with_exactly_these_permissions_it_works_and_without_any_one_it_ends(
    deployed: Deployed,
) -> None:
    deployed.broker.allow(rules())
    for number, missing in enumerate(needed()):
        deployed.broker.take_back([missing])
        ended = deployed.worker(f"without-{number}").start()
        assert ended.wait() in (2, 3), missing
        assert PASSWORD not in ended.log_text()
        deployed.broker.allow([missing])
    assert deployed.published() == [0, 0]

    process = deployed.worker("worker").start()
    process.wait_ready()
    eventually(
        lambda: deployed.published() == [1, 1],
        lambda: f"{deployed.published()}\n{process.log_end()}",
    )
    assert deployed.upgrade_check() == (0, "")
    code, told = deployed.upgrade_check(K=7)
    assert code == 1
    assert "was built with other settings" in told
    assert "COVERSUMM_K" in told
    assert _all_ready(deployed) == (0, f"http://127.0.0.1:{deployed.port} is ready\n")
    assert process.terminate() == 0, process.log_end()
    assert "DESCRIBE_CONFIGS" not in process.log_text()


def test_a_replay_runs_as_a_job(deployed: Deployed, tmp_path: Path) -> None:
    """Two processes of it. Their user may do what a replay needs, and nothing of what is the
    workers' alone.
    """
    deployed.broker.take_back(rules())
    deployed.broker.allow(rules(REPLAYER))
    jobs = [deployed.replay(tmp_path / str(index), index) for index in range(2)]
    for job in jobs:
        _, told = job.communicate(timeout=PATIENCE_SECONDS)
        assert job.returncode == 0, told
    found = read_topic(deployed.broker.bootstrap_servers, "marketplace.review-summaries.v1.epoch-2")
    assert [json.loads(message.value or b"")["epoch"] for message in found] == [2]
    deployed.broker.take_back(rules(REPLAYER))


def test_a_bridge_has_exactly_the_permissions_that_it_needs(deployed: Deployed) -> None:
    deployed.broker.create_topic(SOURCE, LETTERS["spec"]["partitions"])
    sender = producer(deployed.broker.bootstrap_servers)
    for value in (b'{"product": "e", "id": "r"}', b"nonsense"):
        sender.produce(SOURCE, key=b"row", value=value)
    assert sender.flush(PATIENCE_SECONDS) == 0

    def bridged() -> list[int]:
        names = ("marketplace.reviews.v1", LETTERS["metadata"]["name"])
        return [len(read_topic(deployed.broker.bootstrap_servers, name)) for name in names]

    before, _ = bridged()
    deployed.broker.allow(rules(BRIDGE))
    for number, missing in enumerate(needed(BRIDGE)):
        deployed.broker.take_back([missing])
        ended = deployed.bridge(f"bridge-without-{number}").start()
        assert ended.wait() in (2, 3), missing
        assert PASSWORD not in ended.log_text()
        deployed.broker.allow([missing])
    assert bridged() == [before, 0]
    process = deployed.bridge("bridge").start()
    process.wait_ready()
    eventually(lambda: bridged() == [before + 1, 1], process.log_end)
    assert process.terminate() == 0, process.log_end()
    deployed.broker.take_back(rules(BRIDGE))


def test_probes_hold_while_the_state_is_restored(deployed: Deployed, tmp_path: Path) -> None:
    """From its first answer on a worker that restores is alive and not ready, by the chart's paths
    and within its timeouts.
    """
    probes = worker(deployed.objects)
    live, ready = (probes[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe"))
    assert probes["startupProbe"]["httpGet"] == probes["livenessProbe"]["httpGet"]
    seen: list[tuple[int, str]] = []
    with pipeline(
        deployed.broker, "restoring", tmp_path, settings={"COVERSUMM_DIMENSION": "2"}
    ) as site:
        deployed.broker.create_topic(
            site.changelog_topic, site.partitions, {"cleanup.policy": "compact"}
        )
        rows = (
            Sent(b"\xff" + number.to_bytes(39, "big"), os.urandom(1024)) for number in range(60_000)
        )
        send(deployed.broker.bootstrap_servers, site.changelog_topic, rows, chunk=5000)
        process = site.worker().start()
        eventually(
            lambda: _answer(process, live, probes["livenessProbe"]) is not None,
            process.log_end,
            every_s=0.01,
        )
        while not seen or seen[-1][0] != 200:
            assert process.alive, process.log_end()
            answer = _answer(process, live, probes["livenessProbe"])
            assert answer is not None, process.log_end()
            assert answer[0] == 200
            state = _answer(process, ready, probes["readinessProbe"])
            assert state is not None
            seen.append(state)
        site.stop()
    assert sum(process.restored_rows()) == 60_000
    assert sum(status == 503 for status, _ in seen) > 5


def _answer(process: WorkerProcess, path: str, probe: dict[str, Any]) -> tuple[int, str] | None:
    """Status and words, as the kubelet would get them; None where there was no answer in
    its time.
    """
    try:
        with process.get(path, probe["timeoutSeconds"]) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return None


def _all_ready(deployed: Deployed) -> tuple[int, str]:
    """What the pod of `helm test` does, with the address of the worker in place of the names that
    only a cluster knows.
    """
    (container,) = only(deployed.objects, "Pod")["spec"]["containers"]
    python, *command = container["command"]
    assert python == "python3"
    script = [part for part in command if not part.startswith("http://")]
    assert len(command) - len(script) == 3
    done = subprocess.run(
        [sys.executable, *script, f"http://127.0.0.1:{deployed.port}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stdout


def test_a_release_that_is_not_ready_fails_its_test(deployed: Deployed) -> None:
    script = (CHART / "files" / "all_ready.py").read_text()
    impatient = re.sub(
        r"^PATIENCE_SECONDS = .*", "PATIENCE_SECONDS = 0.0", script, flags=re.MULTILINE
    )
    assert impatient != script
    done = subprocess.run(
        [sys.executable, "-c", impatient, f"http://127.0.0.1:{free_port()}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "is not ready" in done.stdout
