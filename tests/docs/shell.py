"""A shell that runs the blocks of the pages as they are printed, in a folder of its own.

Of a line only addresses are replaced: `localhost:9092` by the broker of the test, and each port by
a free one. A line that runs until it is stopped goes on beside those that follow, as in a second
terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Self

from docs.build.render import ROOT
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent
from tests.harness.workers import clean_environment, run_command
from worker.view.output import PROGRAM

SERVED = ("run", "bridge", "serve")
PREPARED = ("make setup", ". .venv/bin/activate")  # the tests run in such an environment
ASKS = ("inspect", "history", "curl")  # may come before what was sent just now has arrived


def blocks(page: str, section: str = "") -> list[tuple[str, str]]:
    """Kind and text of the blocks of a page, or of one of its sections."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert text, section
    return re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.M | re.S)


class Shell:
    """A context manager, which ends what still runs."""

    def __init__(self, kafka: KafkaBroker, directory: Path) -> None:
        self.directory = directory
        self.exported: dict[str, str] = {}
        self.running: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._servers = kafka.bootstrap_servers
        self._ports: defaultdict[str, str] = defaultdict(lambda: str(free_port()))
        programs = directory / "programs"
        programs.mkdir(exist_ok=True)
        for name, words in ((PROGRAM, "-m worker"), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (programs / name).chmod(0o755)
        self._base = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(directory),
            "KAFKA_BOOTSTRAP_SERVERS": self._servers,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End what runs, as Ctrl-C does, and forget the exports: the next terminals are new."""
        for process, _ in self.running:
            process.terminate()
        for process, _ in self.running:
            process.wait(PATIENCE_SECONDS)
        self.running.clear()
        self.exported.clear()

    def run(self, block: str) -> dict[str, str]:
        """Run a block; what each line printed, by the line as it is printed."""
        return dict(self._each(block.replace("\\\n", "")))

    def _each(self, block: str) -> Iterator[tuple[str, str]]:
        for line in block.splitlines():
            command = " ".join(line.partition("  #")[0].split())
            if not command or command in PREPARED:
                continue
            words = shlex.split(self._here(command))
            own = list(takewhile(lambda word: re.match(r"[A-Z_]+=", word), words))
            match words[len(own) :]:
                case ["export", *settings]:
                    self.exported |= dict(setting.split("=", 1) for setting in settings)
                case [".", file]:
                    list(self._each((self.directory / file).read_text()))
                case ["cd", folder]:
                    self.directory /= folder
                case [program, *arguments] if _runs_on(program, arguments):
                    yield command, self._start(words, own, program)
                case _:
                    yield command, self._ask(command)

    def _ask(self, command: str) -> str:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (done := self._done(command)).returncode and time.monotonic() < give_up:
            if not any(ask in command.split() for ask in ASKS):
                break
            time.sleep(0.5)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def output(self, command: str) -> str:
        """What a line prints now, whether it fails or not."""
        return self._done(command).stdout

    def _done(self, command: str) -> subprocess.CompletedProcess[str]:
        environment = self._environment
        if "replay" in command.split() and "COVERSUMM_WEB_PORT" not in self.exported:
            del environment["COVERSUMM_WEB_PORT"]  # it takes a free one
        return subprocess.run(
            ["sh", "-c", self._here(command)],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def _start(self, words: list[str], own: list[str], program: str) -> str:
        """Start a process; a worker or a bridge until it is ready. Returns the path of its log."""
        log = self.directory / f"process-{time.monotonic_ns()}.log"
        settings = dict(assignment.split("=", 1) for assignment in own)
        with log.open("wb") as file:
            process = subprocess.Popen(
                words[len(own) :],
                cwd=self.directory,
                env=self._environment | settings,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        self.running.append((process, log))
        if program == PROGRAM:
            port = (self._environment | settings)["COVERSUMM_WEB_PORT"]
            eventually(lambda: self._is_ready(process, port), self.logs)
        return str(log)

    def _is_ready(self, process: subprocess.Popen[bytes], port: str) -> bool:
        assert process.poll() is None, self.logs()
        with suppress(OSError):
            url = f"http://127.0.0.1:{port}/readyz"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        return False

    def logs(self) -> str:
        """The ends of what the processes wrote."""
        return "\n".join(log.read_text()[-4000:] for _, log in self.running)

    def _here(self, text: str) -> str:
        text = text.replace("localhost:9092", self._servers)
        return re.sub(r"\b80[89]\d\b", lambda port: self._ports[port[0]], text)

    @property
    def _environment(self) -> dict[str, str]:
        default = {"COVERSUMM_WEB_PORT": self._ports["8080"]}
        return clean_environment({**default, **self._base, **self.exported})


def _runs_on(program: str, arguments: list[str]) -> bool:
    """Whether it runs until it is stopped."""
    if program == "python":
        return arguments[0].endswith("consumer.py")
    return program == PROGRAM and arguments[0] in SERVED


def run(arguments: list[str], directory: Path, settings: dict[str, str]) -> str:
    """What a command of the worker prints."""
    done = run_command(*arguments, environment=settings, cwd=directory)
    assert done.returncode == 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
