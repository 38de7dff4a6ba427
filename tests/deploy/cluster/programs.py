"""The programs of a Kubernetes control plane, built from their Go modules.

`python -m tests.deploy.cluster.programs` builds into .cache/deploy what is not there yet, in the
versions and with the hashes of `go/*/go.mod` and `go/*/go.sum`. It takes some ten minutes of two
processors, 2 GB of memory and 5 GB of Go's caches (`go clean -cache -modcache` frees them); after
that nothing needs the network.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from tests.deploy import tools

MODULES: Final = Path(__file__).parent / "go"
PACKAGES: Final = {
    "etcd": {"etcd": "go.etcd.io/etcd/server/v3"},
    "kwok": {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    "kubernetes": {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
}


def _key(module: str) -> str:
    """Changes with the versions of the module and of what it requires."""
    return tools.key(*((MODULES / module / name).read_text() for name in ("go.mod", "go.sum")))


FOLDERS: Final = {module: tools.CACHE / f"{module}-{_key(module)}" for module in PACKAGES}


def program(name: str) -> Path:
    """The path of a program."""
    (module,) = [module for module, packages in PACKAGES.items() if name in packages]
    return FOLDERS[module] / name


def missing() -> list[str]:
    """The modules that were not built yet."""
    return [module for module, folder in FOLDERS.items() if not folder.exists()]


def _build(module: str, folder: Path) -> None:
    for name, package in PACKAGES[module].items():
        command: list[str | Path] = [
            "go",
            "build",
            "-C",
            MODULES / module,
            "-buildvcs=false",
            "-trimpath",
        ]
        command += ["-ldflags", f"-s -w {_version()}" if module == "kubernetes" else "-s -w"]
        tools.run(*command, "-o", folder / name, package, env={"CGO_ENABLED": "0", "GOFLAGS": ""})


def _version() -> str:
    """What Kubernetes' own build tells its programs about themselves: clients go by it."""
    found = re.search(
        r"k8s\.io/kubernetes v(\d+)\.(\d+)\.\d+", (MODULES / "kubernetes" / "go.mod").read_text()
    )
    assert found is not None
    values = {
        "gitVersion": found[0].partition(" ")[2],
        "gitMajor": found[1],
        "gitMinor": found[2],
    }
    return " ".join(
        f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()
    )


def main() -> None:
    """Build what is missing."""
    for module, folder in FOLDERS.items():
        tools.install(folder, partial(_build, module))


if __name__ == "__main__":
    main()
