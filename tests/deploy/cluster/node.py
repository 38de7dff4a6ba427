"""A kubelet whose pods are real processes on this machine: what a cluster's programs decide happens
to real workers, on a real Kafka.

It takes the pods of one namespace, whose name begins with `processes-`, in kwok's place. A pod's
image tag names the tree that its process runs; its claim is a folder that outlives it. Probes,
SIGTERM and the grace period are those of `tests.deploy.kubelet`. What differs from the rendered
environment: data is in that folder, and the web server has a port of its own on 127.0.0.1.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import urllib.error
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tests.bench.worker import launch
from tests.deploy.chart import environment
from tests.deploy.cluster.control_plane import ControlPlane, Object
from tests.deploy.kubelet import Kubelet
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import Process
from tests.harness.workers import WorkerProcess

EVERY_SECONDS = 0.2
INDEX = "batch.kubernetes.io/job-completion-index"
PATCH = "application/strategic-merge-patch+json"


class Task:
    """The pod of a Job, or of `helm test`: one process that ends by itself."""

    def __init__(self, process: Process, begin: Callable[[], object]) -> None:
        self.process = process
        self.start = begin
        self.ready = False

    def stop(self) -> None:
        """End it; nothing of a Job is stopped that has something to lose."""
        self.process.discard()


class Node:
    """The pods of a namespace, from `__enter__` to `__exit__`.

    Args:
        trees: by image tag the checkout that runs, None for this tree.

    Attributes:
        workers: by name of their pods; a successor's process takes its predecessor's place.
        faults: what a kubelet would not have had to do: restarts, kills, exit codes.
        logs: of processes that ended by themselves, by their pods' names.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        directory: Path,
        trees: Mapping[str, Path | None],
    ) -> None:
        self.workers: dict[str, WorkerProcess] = {}
        self.faults: list[str] = []
        self.logs: dict[str, str] = {}
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._directory = directory
        self._trees = trees
        self._running: dict[str, Kubelet | Task] = {}
        self._reported: dict[str, str] = {}
        self._ending: dict[str, threading.Thread] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)
        for one in self._running.values():
            one.process.discard()

    def check(self) -> None:
        """AssertionError where there is a fault."""
        assert not self.faults, "\n".join(self.faults)

    def _run(self) -> None:
        """Its processes end with the thread that starts them: it starts all."""
        while not self._over.wait(EVERY_SECONDS):
            try:
                for pod in self._plane.request("GET", self._path)["items"]:
                    if pod["spec"].get("nodeName"):
                        self._look(pod)
            except Exception as cause:
                self._fault(f"{type(cause).__name__}: {cause}")
                return

    def _fault(self, what: str) -> None:
        """Say it at once: helm may wait for long."""
        print(what, file=sys.stderr, flush=True)
        self.faults.append(what)

    def _look(self, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        running = self._running.get(uid)
        if "deletionTimestamp" in pod["metadata"]:
            self._end(uid, name, running)
        elif running is None:
            self._running[uid] = self._made(pod)
            self._running[uid].start()
            self._report(pod, "Running", ready=False)
        elif isinstance(running, Task):
            if (code := running.process.exit_code) is not None:
                self.logs[name] = running.process.log_text()
                self._report(pod, "Failed" if code else "Succeeded", ready=False, code=code)
        elif uid not in self._ending:
            if not running.process.alive:
                self._ending[uid] = threading.current_thread()
                code = running.process.exit_code
                self._fault(f"{name} ended with {code}\n{running.process.log_end()}")
            self._report(pod, "Running", ready=running.ready)

    def _end(self, uid: str, name: str, running: Kubelet | Task | None) -> None:
        """Stop the process in a thread of its own; then the pod goes."""
        if uid in self._ending:
            if not self._ending[uid].is_alive():
                gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                self._request("DELETE", f"{self._path}/{name}", gone)
            return

        def stop() -> None:
            try:
                if isinstance(running, Kubelet) and (code := running.stop()[0]):
                    self._fault(f"{name} ended with {code}\n{running.process.log_end()}")
                elif isinstance(running, Task):
                    running.stop()
            except AssertionError as cause:
                self._fault(str(cause))

        self._ending[uid] = threading.Thread(target=stop, daemon=True)
        self._ending[uid].start()

    def _made(self, pod: Object) -> Kubelet | Task:
        metadata, spec = pod["metadata"], pod["spec"]
        (container,) = spec["containers"]
        name = metadata["name"]
        directory = self._directory / name
        if "command" in container:  # `helm test`
            command = [sys.executable, *map(self._here, container["command"][1:])]
            task = Process(directory / "task.log")
            return Task(task, lambda: task.launch(command))
        facts = {
            "metadata.name": name,
            "metadata.namespace": metadata["namespace"],
            "status.podIP": "127.0.0.1",
            f"metadata.annotations['{INDEX}']": metadata.get("annotations", {}).get(INDEX, ""),
            f"metadata.labels['{INDEX}']": metadata.get("labels", {}).get(INDEX, ""),
        }
        variables = environment({"env": [], **container}, facts) | {
            "COVERSUMM_DATA_DIR": str(self._data(pod)),
            "COVERSUMM_MODEL_CACHE_DIR": str(directory / "models"),
            "COVERSUMM_WEB_BIND": "127.0.0.1",
        }
        launcher = None
        if (tree := self._trees[container["image"].rpartition(":")[2]]) is not None:
            variables[launch.CHECKOUT], launcher = str(tree), launch.__name__
        process = WorkerProcess(
            directory, variables, launcher=launcher, arguments=container["args"]
        )
        process.environment |= {
            "COVERSUMM_WEB_PORT": str(process.web_port),
            "COVERSUMM_WEB_ADVERTISED_URL": f"http://127.0.0.1:{process.web_port}",
        }
        if container["args"] != ["run"]:
            return Task(process, process.start)
        self.workers[name] = process
        return Kubelet(name, process, container, spec["terminationGracePeriodSeconds"])

    def _data(self, pod: Object) -> Path:
        (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "data"]
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        return self._directory / (claim or f"data-of-{pod['metadata']['uid']}")

    def _here(self, argument: str) -> str:
        """An argument in which the address of a pod is that of its process."""
        found = re.fullmatch(r"http://([^.:/]+)\.[^/]+\.svc:\d+", argument)
        return f"http://127.0.0.1:{self.workers[found[1]].web_port}" if found else argument

    def _report(self, pod: Object, phase: str, *, ready: bool, code: int | None = None) -> None:
        """Tell the API server how a pod is, where it has not been told."""
        said = json.dumps([phase, ready, code])
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if self._reported.get(uid) == said:
            return
        self._reported[uid] = said
        status = _status(pod, phase, ready, code, len(self._reported))
        self._request("PATCH", f"{self._path}/{name}/status", {"status": status}, PATCH)

    def _request(self, *words: Any) -> None:
        """Ask the API server for something about a pod, which may be gone, or replaced, by now."""
        try:
            self._plane.request(*words)
        except urllib.error.HTTPError as answer:
            if answer.code not in (404, 409):
                raise


def _status(pod: Object, phase: str, ready: bool, code: int | None, number: int) -> Object:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    state: dict[str, Any] = {"running": {"startedAt": now}}
    if code is not None:
        ended = {"exitCode": code, "startedAt": now, "finishedAt": now}
        state = {"terminated": {**ended, "reason": "Error" if code else "Completed"}}
    (container,) = pod["spec"]["containers"]
    return {
        "phase": phase,
        "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
        "startTime": pod["status"].get("startTime", now),
        "conditions": [
            {"type": kind, "status": str(holds), "lastTransitionTime": now}
            for kind, holds in (
                ("Initialized", True),
                ("ContainersReady", ready),
                ("Ready", ready),
            )
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": ready,
                "started": code is None,
                "restartCount": 0,
                "state": state,
            }
        ],
    }
