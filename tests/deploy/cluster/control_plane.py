"""A Kubernetes without machines: the real API server, controllers and scheduler, over nodes whose
kubelets kwok plays.

What a cluster decides is decided by its own programs: admission, pod security, disruption budgets,
what a StatefulSet does to its pods and claims, which volume and which node they get. Nothing runs
in the pods (`stages.yaml` says what becomes of them).
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deploy.cluster.programs import program
from tests.deploy.tools import CRDS, HELM
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent

STAGES = Path(__file__).with_name("stages.yaml")
USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelets": ("kwok", "system:masters"),
}
CERTIFICATE = "certificates/apiserver.crt"
ZONES = ("a", "b", "c")
VOLUMES = 40
Object = dict[str, Any]


class ClusterError(AssertionError):
    """A program of the control plane did not do what it is there for; the message ends with its
    log.
    """


class Refused(Exception):
    """What a command said that ended with an error."""


class ControlPlane:
    """The programs of one control plane, on ports and in a directory of their own, from `__enter__`
    to `__exit__`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._url = f"https://127.0.0.1:{free_port()}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The store last: an API server without it does not end.
        for process in reversed(self._running.values()):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_SECONDS)

    def kubectl(self, *arguments: str | Path, stdin: str = "") -> str:
        """What a kubectl command wrote; Refused with what it said where it failed."""
        return self._run(program("kubectl"), *arguments, stdin=stdin)[0]

    def helm(self, *arguments: str | Path, stdin: str = "") -> str:
        """The same of helm."""
        return self._run(HELM, *arguments, stdin=stdin)[0]

    def command(self, *arguments: str) -> list[str | Path]:
        """A kubectl command, to be run in the `environment`."""
        return [program("kubectl"), *arguments]

    def warnings(self, *arguments: str | Path, stdin: str = "") -> str:
        """What the API server has to say of what it takes by a kubectl command."""
        return self._run(program("kubectl"), *arguments, stdin=stdin)[1]

    def get(self, namespace: str, kind: str, *options: str) -> list[Object]:
        """The objects of a kind in a namespace, by name."""
        found = json.loads(self.kubectl("-n", namespace, "get", kind, "-o", "json", *options))
        return sorted(found["items"], key=lambda made: str(made["metadata"]["name"]))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects."""
        for made in objects:
            self.kubectl("create", "-f", "-", stdin=json.dumps(made))

    def request(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Object:
        """The API server's answer, without a process of kubectl; `kind` is the body's content type.
        Raises what urllib raises.
        """
        headers = {
            "Authorization": "Bearer admin-token",
            "Content-Type": kind or "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        trusted = ssl.create_default_context(cafile=self._directory / CERTIFICATE)
        with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS, context=trusted) as answer:
            return dict(json.load(answer))

    def log_end(self, name: str) -> str:
        """The end of a program's log, for messages."""
        return f"--- {name}\n" + self._log(name).read_text(errors="replace")[-4000:]

    def _start(self) -> None:
        store = f"http://127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        self._launch(
            "etcd",
            "--data-dir=etcd",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={peers}",
            "--unsafe-no-fsync",
        )
        self._write_identities()
        self._launch(
            "kube-apiserver",
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._url.rpartition(':')[2]}",
            "--cert-dir=certificates",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--service-account-key-file=accounts.pem",
            "--service-account-signing-key-file=accounts.pem",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
        )
        self._wait_for("kube-apiserver", "get", "--raw=/readyz")
        self._launch(
            "kube-controller-manager",
            *_client("controllers"),
            "--service-account-private-key-file=accounts.pem",
            f"--root-ca-file={CERTIFICATE}",
            "--use-service-account-credentials=true",
        )
        self._launch("kube-scheduler", *_client("scheduler"))
        self._launch(
            "kwok",
            f"--kubeconfig={_kubeconfig('kubelets')}",
            f"--config={STAGES}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{free_port()}",
        )
        self.create(*nodes(), *storage())
        for definition in CRDS.iterdir():
            self.kubectl("create", "-f", definition)
        self._wait_for("kwok", "wait", "--for=condition=Ready", "node", "--all", "--timeout=10s")
        self._wait_for(
            "kube-apiserver", "wait", "--for=condition=Established", "crd", "--all", "--timeout=10s"
        )
        self._wait_for("kube-controller-manager", "get", "serviceaccount", "default")

    def _write_identities(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        (self._directory / "accounts.pem").write_bytes(pem)
        lines = [f'{role}-token,{user},{role},"{group}"\n' for role, (user, group) in USERS.items()]
        (self._directory / "tokens.csv").write_text("".join(lines))
        for role in USERS:
            self._write_kubeconfig(role)

    def _write_kubeconfig(self, role: str) -> None:
        cluster = {"server": self._url, "certificate-authority": CERTIFICATE}
        made = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": role, "user": {"token": f"{role}-token"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": role}}],
            "current-context": "here",
        }
        (self._directory / _kubeconfig(role)).write_text(json.dumps(made))

    def _launch(self, name: str, *flags: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [program(name), *flags],
                cwd=self._directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def _wait_for(self, name: str, *arguments: str) -> None:
        """Ask with kubectl until it is answered, which is what `name` has to see to."""
        deadline_s = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.kubectl(*arguments)
                return
            except Refused as cause:
                if time.monotonic() > deadline_s or self._running[name].poll() is not None:
                    raise ClusterError(f"{cause}\n{self.log_end(name)}") from cause
            time.sleep(0.1)

    def _run(self, command: Path, *arguments: str | Path, stdin: str) -> tuple[str, str]:
        done = subprocess.run(
            [command, *arguments],
            cwd=Path(__file__).parents[3],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
        )
        if done.returncode:
            raise Refused(done.stderr + done.stdout)
        return done.stdout, done.stderr

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    @property
    def environment(self) -> dict[str, str]:
        """Nothing is read from, or left in, anybody's home."""
        kubeconfig = str(self._directory / _kubeconfig("admin"))
        return {"PATH": os.environ["PATH"], "HOME": str(self._directory), "KUBECONFIG": kubeconfig}


def nodes() -> list[Object]:
    """One for each zone."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "100", "ephemeral-storage": "256Gi"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node-{zone}",
                "labels": {
                    "kubernetes.io/hostname": f"node-{zone}",
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "status": {"allocatable": room, "capacity": room},
        }
        for zone in ZONES
    ]


def storage() -> list[Object]:
    """The class that claims have by default, and volumes of it for whoever claims them first."""
    kind = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"volume-{number}"},
            "spec": {
                "storageClassName": "standard",
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"/nowhere/{number}"},
            },
        }
        for number in range(VOLUMES)
    ]
    return [kind, *volumes]


def _kubeconfig(role: str) -> str:
    return f"{role}.kubeconfig"


def _client(role: str) -> Sequence[str]:
    """Flags of a controller: who it is, and no server that others could need."""
    return (
        f"--kubeconfig={_kubeconfig(role)}",
        f"--authentication-kubeconfig={_kubeconfig('admin')}",
        f"--authorization-kubeconfig={_kubeconfig('admin')}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        "--leader-elect=false",
    )
