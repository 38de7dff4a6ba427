"""What the tests of the chart need besides Python: helm, the schemas of Kubernetes, those of custom
resources; and the AsyncAPI document's parser and viewer.

`python -m tests.deploy.tools` installs into .cache/deploy what is not there yet, each in its pinned
version; after that nothing needs the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.harness.node import jars

HERE: Final = Path(__file__).parent
CACHE: Final = HERE.parents[1] / ".cache" / "deploy"
HELM_VERSION: Final = "v3.22.0"
KUBERNETES_VERSIONS: Final = ("1.30", "1.36")
"""The chart is held against the schemas of these."""
# Modules whose archives have the definitions of custom resources; the sums are those of Go's
# checksum database.
CRD_MODULES: Final = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        (
            "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        ),
    ),
    "github.com/kedacore/keda/v2@v2.21.0": (
        "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
        ("config/crd/bases/keda.sh_scaledobjects.yaml",),
    ),
    "sigs.k8s.io/gateway-api@v1.4.1": (
        "h1:NPxFutNkKNa8UfLd2CMlEuhIPMQgDQ6DXNKG9sHbJU8=",
        (
            "config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
            "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
        ),
    ),
    "github.com/external-secrets/external-secrets@v0.16.2": (
        "h1:iNY+gIgSyL5higXTfnz+hdPCaiB/43UiHLqE7HBpj68=",
        (
            "config/crds/bases/external-secrets.io_externalsecrets.yaml",
            "config/crds/bases/external-secrets.io_secretstores.yaml",
        ),
    ),
    "github.com/argoproj/argo-cd/v3@v3.1.0": (
        "h1:2+gPskQKCyPC9DzRSWQ1AvmS3WiIlRR7bKz/FO3DozI=",
        ("manifests/crds/application-crd.yaml",),
    ),
}
# Strimzi publishes its definitions as classes, and the program that writes them out.
STRIMZI_POM: Final = HERE / "strimzi.pom.xml"
STRIMZI_KINDS: Final = ("topic.KafkaTopic", "user.KafkaUser")
ASYNCAPI_PACKAGES: Final = ("@asyncapi/parser@3.6.3", "@asyncapi/react-component@3.2.1")
NODE_MAJOR: Final = 20


def key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# A plain `go install` makes a helm that renders for Kubernetes 1.20, which the chart refuses.
HELM_VARIABLES: Final = {
    "internal/version.version": HELM_VERSION,
    **{
        f"pkg/{package}.k8sVersion{part}": number
        for package in ("chartutil", "lint/rules")
        for part, number in zip(("Major", "Minor"), KUBERNETES_VERSIONS[-1].split("."), strict=True)
    },
}
HELM: Final = CACHE / f"helm-{HELM_VERSION}-{key(json.dumps(HELM_VARIABLES))}" / "helm"
VALIDATOR: Final = CACHE / f"validate-{key((HERE / 'validate.txt').read_text())}"
CRDS: Final = (
    CACHE / f"crds-{key(json.dumps(CRD_MODULES), STRIMZI_POM.read_text(), *STRIMZI_KINDS)}"
)
ASYNCAPI: Final = CACHE / f"asyncapi-{key(*ASYNCAPI_PACKAGES)}"


def missing_tools() -> list[str]:
    """What the tests of the chart lack, in words; empty when nothing does."""
    found = {
        "helm": HELM,
        "kubernetes-validate": VALIDATOR,
        "the schemas of custom resources": CRDS,
    }
    return [name for name, path in found.items() if not path.exists()]


def run(*command: str | Path, env: Mapping[str, str] = {}) -> str:
    """What a command wrote; the end where it failed."""
    environment = {**os.environ, **env}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=3600)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}"
        )
    return done.stdout


def _helm(folder: Path) -> None:
    variables = (f"-X helm.sh/helm/v3/{name}={value}" for name, value in HELM_VARIABLES.items())
    flags = " ".join(("-s -w", *variables))
    settings = {"GOBIN": str(folder), "CGO_ENABLED": "0", "GOFLAGS": "-trimpath"}
    run(
        "go", "install", "-ldflags", flags, f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}", env=settings
    )


def _venv(requirements: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        venv.create(folder, with_pip=True)
        pip = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "install",
        ]
        run(*pip, "--no-deps", "--requirement", HERE / requirements)

    return fill


def _crds(folder: Path) -> None:
    for module, (expected, files) in CRD_MODULES.items():
        found = json.loads(run("go", "mod", "download", "-json", module))
        if found["Sum"] != expected:
            raise SystemExit(f"{module} has the sum {found['Sum']}, not {expected}")
        for name in files:
            shutil.copyfile(Path(found["Dir"]) / name, folder / Path(name).name)
    generator = [
        "java",
        "-cp",
        f"{jars(STRIMZI_POM)}/*",
        "io.strimzi.crdgenerator.CrdGenerator",
        "--yaml",
    ]
    run(
        *generator,
        *(f"io.strimzi.api.kafka.model.{kind}={folder / kind}.yaml" for kind in STRIMZI_KINDS),
    )


def _npm(folder: Path) -> None:
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--silent")
    run("npm", "install", "--prefix", folder, *options, *ASYNCAPI_PACKAGES)


def node_major() -> int:
    """The major version of Node.js; 0 without it or without npm."""
    if not (shutil.which("node") and shutil.which("npm")):
        return 0
    return int(run("node", "--version").lstrip("v").partition(".")[0])


def install_asyncapi() -> bool:
    """Install parser and viewer of AsyncAPI; False, with a message, without Node.js."""
    if not ASYNCAPI.exists() and node_major() < NODE_MAJOR:
        print(f"the AsyncAPI document is not checked: Node.js {NODE_MAJOR} or newer is missing")
        return False
    install(ASYNCAPI, _npm)
    return True


def install(target: Path, fill: Callable[[Path], None]) -> None:
    """Have `fill` make a folder that takes the target's place only once it is whole.

    What is in a venv is run by `python -m`, for its scripts name the folder in which they were
    made.
    """
    if target.exists():
        return
    print(f"installing {target.name} into {target.parent} ...", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=CACHE, prefix="making-"))
    try:
        fill(scratch)
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Install what is missing."""
    install(HELM.parent, _helm)
    install(VALIDATOR, _venv("validate.txt"))
    install(CRDS, _crds)
    install_asyncapi()


if __name__ == "__main__":
    main()
