"""The worker's image as an operator would run it: every container read-only, without root, without
capabilities.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
USER = 10001
HARDENED = [
    "--read-only",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp",
    "--network=host",
    # Podman asks for more than a root without CAP_SYS_RESOURCE may give.
    "--ulimit=nofile=4096:4096",
    "--ulimit=nproc=4096:4096",
]


def extras() -> list[str]:
    """Those of the variant that EXTRAS names; none of the image itself."""
    return os.environ.get("EXTRAS", "").split()


def suffix() -> str:
    """The end of the variant's name."""
    return "".join(f"-{extra}" for extra in extras())


def image() -> str:
    """The image, or its variant, that `make image` makes, or the one that IMAGE names."""
    version = next(
        line.split('"')[1]
        for line in (ROOT / "pyproject.toml").read_text().splitlines()
        if "version =" in line
    )
    return os.environ.get("IMAGE", f"localhost/coversumm-worker:{version}") + suffix()


@cache
def engine() -> str | None:
    """Docker or podman, whichever works."""
    named = [os.environ["ENGINE"]] if os.environ.get("ENGINE") else ["docker", "podman"]
    return next(
        (name for name in named if shutil.which(name) and _run([name, "info"]).returncode == 0),
        None,
    )


def pinned() -> dict[str, str]:
    """Package -> version of everything that is to be in the image beside the worker and
    its model.
    """
    folder = ROOT / "deploy" / "image"
    files = [
        folder / "requirements.txt",
        *(folder / "extras" / f"{extra}.txt" for extra in extras()),
    ]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return dict(line.split()[0].split("==") for line in lines if "==" in line)


def hardened() -> list[str]:
    """The options of every container."""
    # Podman puts file systems of its own onto /run and /var/tmp of one that is to be read-only.
    return [*HARDENED, *(["--read-only-tmpfs=false"] if engine() == "podman" else [])]


def _run(
    command: Sequence[str], timeout_s: float = PATIENCE_SECONDS
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
    )


def control(*arguments: str, timeout_s: float = PATIENCE_SECONDS) -> str:
    """What the engine answers; AssertionError with its message when it refuses."""
    done = _run([engine() or "no engine", *arguments], timeout_s)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout


def writable(folder: Path) -> Path:
    """A folder made for the image's user, to be mounted as a volume."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, USER, USER)
    return folder


@dataclass
class Container:
    """One container: of the worker, or of another of its commands. `close` removes it, whatever
    state it is in.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    command: Sequence[str] = ("run",)
    web_port: int = field(default_factory=free_port)
    id: str = ""

    def start(self) -> Container:
        """Start it in the background. Not with --rm, which would take its log."""
        variables = {"COVERSUMM_WEB_PORT": str(self.web_port), **self.environment}
        named = [f"--env={name}={value}" for name, value in variables.items()]
        self.id = control(
            "run", "--detach", *hardened(), *named, *self.options, image(), *self.command
        ).strip()
        return self

    def __enter__(self) -> Container:
        return self.start()

    def __exit__(self, *_: object) -> None:
        control("rm", "--force", self.id)

    def kill(self, name: str) -> int:
        """Send it a signal; its exit code. One that outlives its signal is an error."""
        control("kill", f"--signal={name}", self.id)
        return self.wait()

    def again(self) -> None:
        """Start the same container again, as a restart policy does."""
        control("start", self.id)

    def wait(self, timeout_s: float = PATIENCE_SECONDS) -> int:
        """Its exit code, once it ended."""
        eventually(
            lambda: not self.alive, lambda: f"it did not end\n{self.log()}", timeout_s=timeout_s
        )
        return int(self._state()["ExitCode"])

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return bool(self._state()["Running"])

    def _state(self) -> dict[str, Any]:
        return dict(json.loads(control("inspect", "--format", "{{json .State}}", self.id)))

    def log(self) -> str:
        """All it wrote, to both streams."""
        done = _run([engine() or "no engine", "logs", self.id])
        return done.stdout + done.stderr

    def wait_ready(self) -> float:
        """Seconds until `/readyz` says yes."""
        started_s = time.monotonic()

        def is_ready() -> bool:
            with suppress(OSError), self.get("/readyz") as answer:
                return bool(answer.status == 200)
            assert self.alive, f"it ended before it was ready\n{self.log()}"
            return False

        eventually(is_ready, lambda: f"not ready\n{self.log()}", every_s=0.05)
        return time.monotonic() - started_s

    def get(self, path: str) -> Any:
        """An open HTTP answer of its web server; raises what urllib raises."""
        return urllib.request.urlopen(f"http://127.0.0.1:{self.web_port}{path}", timeout=5)

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in it."""
        return _run([engine() or "no engine", "exec", self.id, *command])


def once(
    *command: str, options: Sequence[str] = (), timeout_s: float = PATIENCE_SECONDS
) -> subprocess.CompletedProcess[str]:
    """A command of the worker in a container of its own, to its end."""
    return _run(
        [engine() or "no engine", "run", "--rm", *hardened(), *options, image(), *command],
        timeout_s,
    )
