"""A release of the chart in a namespace of its own, which enforces the `restricted` level of pod
security.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from docs.build.chart import CHART
from tests.deploy.chart import FULLNAME, RELEASE
from tests.deploy.cluster.control_plane import ControlPlane, Object
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS

PODS = [f"{FULLNAME}-{ordinal}" for ordinal in range(3)]
ENOUGH = ("--wait", "--timeout", f"{PATIENCE_SECONDS:g}s")
WORKERS = "app.kubernetes.io/component=worker"


class Claim(NamedTuple):
    """A claim, and the volume that it has."""

    uid: str
    volume: str


class Release:
    """One release and its pods. Helm waits until what it did is ready."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        level = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        metadata = {"name": namespace, "labels": level}
        plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def install(self) -> None:
        """Install the chart with its default values."""
        self._helm("install", RELEASE, CHART, *ENOUGH)

    def upgrade(self, values: Mapping[str, Any] = {}, *options: str) -> None:
        """Go over to other values."""
        self._helm(
            "upgrade",
            RELEASE,
            CHART,
            "--values",
            "-",
            *(options or ENOUGH),
            stdin=json.dumps(values),
        )

    def rollback(self) -> None:
        """Go back to what was installed."""
        self._helm("rollback", RELEASE, "1", *ENOUGH)

    def uninstall(self) -> None:
        """Remove the release; the claims stay."""
        self._helm("uninstall", RELEASE, *ENOUGH)

    def test(self) -> None:
        """`helm test`."""
        self._helm("test", RELEASE, "--timeout", f"{PATIENCE_SECONDS:g}s")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """A kubectl command in its namespace."""
        return self.plane.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def pods(self) -> dict[str, Object]:
        """The workers' pods, by name."""
        found = self.plane.get(self.namespace, "pods", "--selector", WORKERS)
        return {claim["metadata"]["name"]: claim for claim in found}

    def uids(self) -> dict[str, str]:
        """What tells a pod from its successor of the same name."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def claims(self) -> dict[str, Claim]:
        """The claims of pods, by the pods' names."""
        return {
            claim["metadata"]["name"].removeprefix("data-"): Claim(
                claim["metadata"]["uid"], claim["spec"]["volumeName"]
            )
            for claim in self.plane.get(self.namespace, "pvc")
        }

    def wait_until_all_ready(self) -> None:
        """Until three pods are, and none is on its way out."""

        def all_ready() -> bool:
            found = self.pods()
            return len(found) == len(PODS) and all(is_ready(pod) for pod in found.values())

        eventually(all_ready, lambda: json.dumps(self.pods(), indent=1))

    def evict(self, pod: str) -> None:
        """Ask for a pod's place, as who drains a node does."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.plane.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    @contextmanager
    def watched(self) -> Iterator[list[Object]]:
        """What the API server tells of the workers' pods during the block, in its order; there
        after it.
        """
        told: list[Object] = []
        command = self.plane.command("-n", self.namespace, "get", "pods", "--selector", WORKERS)
        with tempfile.TemporaryFile("w+") as file:
            watch = subprocess.Popen(
                [*command, "--watch", "--output-watch-events", "-o", "json"],
                env=self.plane.environment,
                stdout=file,
            )
            try:
                eventually(
                    lambda: os.fstat(file.fileno()).st_size > 0,
                    lambda: "kubectl printed nothing about the pods",
                )
                yield told
                time.sleep(1)  # what is on its way
            finally:
                watch.terminate()
                watch.wait(PATIENCE_SECONDS)
            file.seek(0)
            told += events(file.read())

    def _helm(self, *arguments: Any, stdin: str = "") -> None:
        self.plane.helm("--namespace", self.namespace, *arguments, stdin=stdin)


def events(text: str) -> Iterator[Object]:
    """The JSON objects of a text, one after the other; the last may be cut off."""
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield found


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready, and stays."""
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def least_ready(told: list[Object]) -> int:
    """The smallest number of pods that were ready at any time, once all were."""
    ready: set[str] = set()
    least = None
    for event in told:
        pod = event["object"]
        name = pod["metadata"]["name"]
        (ready.add if event["type"] != "DELETED" and is_ready(pod) else ready.discard)(name)
        if least is not None or len(ready) == len(PODS):
            least = min(len(ready), least if least is not None else len(ready))
    assert least is not None, "they never were all ready"
    return least


def deleted(told: list[Object]) -> list[str]:
    """The pods that went, in their order."""
    return [event["object"]["metadata"]["name"] for event in told if event["type"] == "DELETED"]
