"""A cluster played on this machine: commands of helm and kubectl act on real workers and a real
Kafka.

The objects are those that helm renders. Of them the kubelet's part is played: a pod is a process
with its container's arguments and environment, a claim a folder, and pods are replaced one after
the other, the last one first, each once the one before is ready. What only a cluster has (names of
services, ports of pods of their own) becomes an address of this machine. Commands that the player
does not know are errors, as are wrong names in those that it knows.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from docs.build.render import ROOT
from tests.deploy import chart
from tests.harness.broker import KafkaBroker
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent
from tests.harness.workers import COMMAND, WorkerProcess, clean_environment
from worker.view.output import PROGRAM

INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@dataclass
class Pod:
    """A worker of a StatefulSet, and the template it was made of."""

    container: chart.Object
    process: WorkerProcess


@dataclass
class Release:
    """What was installed under a name, revision by revision."""

    name: str
    revisions: list[list[str]] = field(default_factory=list)
    objects: list[chart.Object] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    jobs: dict[str, list[subprocess.Popen[str]]] = field(default_factory=dict)


class PlayedCluster:
    """One namespace, and the Kafka beside it."""

    def __init__(self, kafka: KafkaBroker, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory
        self.releases: dict[str, Release] = {}
        self.namespaces = {"kafka"}
        self.steps: list[str] = []
        """What happened to pods, in order."""
        self.printed: dict[str, str] = {}
        self._ports: dict[str, int] = {}

    def discard(self) -> None:
        """End everything."""
        for release in self.releases.values():
            for pod in release.pods.values():
                pod.process.discard()
            for job in release.jobs.values():
                for process in job:
                    process.kill()
                    process.communicate()

    # -- helm --------------------------------------------------------------------------------------

    def helm(self, verb: str, name: str, *options: str) -> None:
        """One command of it, of those that the pages have."""
        chart.helm(verb, name, *options, "--help")  # it knows the options
        words = list(options)
        if "--wait" in words:  # and its timeout: all is ready when a verb of this player returns
            at = words.index("--wait")
            del words[at : at + 3]
        space = words.index("--namespace")
        assert words[space + 1] in self.namespaces
        del words[space : space + 2]
        match verb:
            case "install":
                assert name not in self.releases
                self.releases[name] = Release(name)
                self._apply(self.releases[name], words, upgrade=False)
            case "upgrade":
                self._apply(self.releases[name], words, upgrade=True)
            case "rollback":
                assert not words
                self._apply(self.releases[name], self.releases[name].revisions[-2], upgrade=False)
            case "test":
                assert not words
                self._test(self.releases[name])
            case "uninstall":
                assert not words
                self._scale(self.releases[name], [])
                del self.releases[name]
            case _:
                raise AssertionError(f"helm {verb}")

    def _apply(self, release: Release, words: list[str], *, upgrade: bool) -> None:
        """Render with these words, run what goes before an upgrade, then bring pods and jobs to
        what is wanted.
        """
        path, *options = words
        assert (ROOT / path).resolve() == chart.CHART
        files = [
            str(self.directory / word) if before == "--values" else word
            for before, word in zip(["", *options], options, strict=False)
        ]
        where = ["--namespace", "reviews", *(["--is-upgrade"] if upgrade else [])]
        text = chart.helm("template", release.name, chart.CHART, *where, *files)
        release.objects = chart.load_all(text)
        release.revisions.append(words)
        if upgrade:
            check = _container(chart.only(release.objects, "Job", "-upgrade-check"))
            self.command(check["args"], self._environment(check, f"{release.name}-upgrade-check"))
        stateful = chart.only(release.objects, "StatefulSet")
        replicas = range(stateful["spec"]["replicas"])
        self._scale(release, [f"{stateful['metadata']['name']}-{ordinal}" for ordinal in replicas])
        self._roll(release)
        for job in release.objects:
            name = job["metadata"]["name"]
            if job["kind"] == "Job" and not _is_hook(job) and name not in release.jobs:
                release.jobs[name] = self._job(job)

    def _scale(self, release: Release, wanted: list[str]) -> None:
        """End pods that are not wanted, start those that are missing."""
        for name in [pod for pod in release.pods if pod not in wanted]:
            self._end(name, release.pods[name])
            del release.pods[name]
        for name in [pod for pod in wanted if pod not in release.pods]:
            self._start(release, name)
        for name in wanted:
            release.pods[name].process.wait_ready()

    def _roll(self, release: Release) -> None:
        """Replace the pods that were made of another template."""
        container = chart.worker(release.objects)
        for name in sorted(release.pods, reverse=True):
            if release.pods[name].container != container:
                self._end(name, release.pods[name])
                self._start(release, name)
                release.pods[name].process.wait_ready()

    def _start(self, release: Release, name: str) -> None:
        container = chart.worker(release.objects)
        assert container["args"] == ["run"]
        process = WorkerProcess(self.directory / "pods" / name, self._environment(container, name))
        process.web_port = self._port(name)
        release.pods[name] = Pod(container, process)
        process.start()
        self.steps.append(f"{name} started")

    def _end(self, name: str, pod: Pod) -> None:
        if pod.process.alive:
            assert pod.process.terminate() == 0, pod.process.log_end()
            self.steps.append(f"{name} stopped")

    def _test(self, release: Release) -> None:
        """What the pod of `helm test` does, with the addresses that the pods have here."""
        (container,) = chart.only(release.objects, "Pod")["spec"]["containers"]
        _, option, script, *asked = container["command"]
        assert [url.split("//")[1].split(".")[0] for url in asked] == sorted(release.pods)
        here = [f"http://127.0.0.1:{self._port(name)}" for name in release.pods]
        done = subprocess.run(
            [sys.executable, option, script, *here],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    # -- kubectl -----------------------------------------------------------------------------------

    def kubectl(self, words: list[str], stdin: Path | None) -> str:
        """One command of it, of those that the pages have; what it printed."""
        if words[0] == "--namespace":
            assert words[1] in self.namespaces
            del words[:2]
        match words:
            case ["create", "namespace", name]:
                self.namespaces.add(name)
            case ["apply", "--namespace", "kafka", "--filename", path]:
                self._create_topics(ROOT / path)
            case ["exec", *rest]:
                return self._exec(rest, stdin)
            case ["delete", "persistentvolumeclaim", claim, "--wait=false"]:
                self._pod(claim.removeprefix("data-")).process.kill()
                shutil.rmtree(self._volume(claim))
            case ["delete", "pod", name]:
                release = next(
                    release for release in self.releases.values() if name in release.pods
                )
                self._end(name, release.pods[name])
                self._start(release, name)
                release.pods[name].process.wait_ready()
            case ["delete", "persistentvolumeclaim", "--selector", selector]:
                self._delete_claims(selector)
            case [
                "wait",
                "job",
                "--selector",
                selector,
                "--for",
                "condition=complete",
                "--timeout",
                _,
            ]:
                self._wait(selector)
            case _:
                raise AssertionError(f"kubectl {words}")
        return ""

    def _create_topics(self, path: Path) -> None:
        """As Strimzi's operator does, with one replica."""
        for topic in yaml.safe_load_all(path.read_text()):
            config = {
                name: str(value)
                for name, value in topic["spec"]["config"].items()
                if name != "min.insync.replicas"
            }
            self.kafka.create_topic(topic["metadata"]["name"], topic["spec"]["partitions"], config)

    def _exec(self, words: list[str], stdin: Path | None) -> str:
        """A command of the worker in a pod: [--stdin] POD -- PROGRAM ARGUMENT..."""
        at = words.index("--")
        assert words[: at - 1] == (["--stdin"] if stdin else [])
        program, *arguments = words[at + 1 :]
        assert program == PROGRAM
        return self.command(arguments, self._pod(words[at - 1]).process.environment, stdin)

    def _pod(self, name: str) -> Pod:
        (pod,) = [release.pods[name] for release in self.releases.values() if name in release.pods]
        return pod

    def _delete_claims(self, selector: str) -> None:
        """Those that no release holds any more."""
        key, value = selector.split("=")
        assert key == "app.kubernetes.io/instance"
        assert value not in self.releases
        found = list((self.directory / "volumes").glob(f"data-{value}-coversumm-worker-*"))
        assert found
        for claim in found:
            shutil.rmtree(claim)

    def _wait(self, selector: str) -> None:
        """For the jobs whose labels these are."""
        key, value = selector.split("=")
        processes = [
            process
            for release in self.releases.values()
            for job in release.objects
            if job["kind"] == "Job" and job["metadata"]["labels"].get(key) == value
            for process in release.jobs[job["metadata"]["name"]]
        ]
        assert processes
        for process in processes:
            _, output = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 0, output

    # -- what a kubelet does -----------------------------------------------------------------------

    def _job(self, job: chart.Object) -> list[subprocess.Popen[str]]:
        """All of its processes, started."""
        container, name = _container(job), job["metadata"]["name"]
        return [
            subprocess.Popen(
                [*COMMAND, *container["args"]],
                cwd=ROOT,
                env=clean_environment(self._environment(container, f"{name}-{index}", index)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=die_with_parent,
            )
            for index in range(job["spec"]["completions"])
        ]

    def command(
        self, arguments: list[str], environment: Mapping[str, str], stdin: Path | None = None
    ) -> str:
        """What a command of the worker prints, which ends well; who asks for what was sent just now
        asks until it is there.
        """
        give_up = time.monotonic() + PATIENCE_SECONDS
        done = self._ended(arguments, environment, stdin)
        while (
            arguments[0] == "inspect"
            and "there is no entity" in done.stderr
            and time.monotonic() < give_up
        ):
            done = self._ended(arguments, environment, stdin)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def _ended(
        self, arguments: list[str], environment: Mapping[str, str], stdin: Path | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=clean_environment({"PYTHONPATH": str(ROOT), **environment}),
            input=stdin.read_text() if stdin else "",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            preexec_fn=die_with_parent,
        )

    def _environment(self, container: chart.Object, pod: str, index: int = 0) -> dict[str, str]:
        """A container's, with the addresses and folders that there are here."""
        facts = {
            "metadata.name": pod,
            "metadata.namespace": "reviews",
            "status.podIP": "127.0.0.1",
            INDEX: str(index),
        }
        given = chart.environment(container, facts)
        assert {name: value for name, value in given.items() if ":9092" in value} == {
            "KAFKA_BOOTSTRAP_SERVERS": "my-cluster-kafka-bootstrap.kafka:9092"
        }
        port = self._port(pod)
        assert given["COVERSUMM_DATA_DIR"].startswith("/data/")
        return {
            **given,
            "KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "COVERSUMM_DATA_DIR": str(self._volume(f"data-{pod}") / "state"),
            "COVERSUMM_MODEL_CACHE_DIR": str(self._volume(f"data-{pod}") / "models"),
            "COVERSUMM_WEB_BIND": "127.0.0.1",
            "COVERSUMM_WEB_PORT": str(port),
            "COVERSUMM_WEB_ADVERTISED_URL": f"http://127.0.0.1:{port}",
        }

    def _volume(self, claim: str) -> Path:
        """The folder of a claim, which is there as it is mounted."""
        volume = self.directory / "volumes" / claim
        volume.mkdir(parents=True, exist_ok=True)
        return volume

    def _port(self, pod: str) -> int:
        return self._ports.setdefault(pod, free_port())


def _container(of: chart.Object) -> chart.Object:
    (container,) = of["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _is_hook(manifest: chart.Object) -> bool:
    return "helm.sh/hook" in (manifest["metadata"].get("annotations") or {})
