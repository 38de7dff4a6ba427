"""A real schema registry: Apicurio in memory, with Confluent's API. Maven fetches it once."""

from __future__ import annotations

import contextlib
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.error import HTTPError

from tests.harness.node import CACHE, BrokerError, free_port, java_options
from tests.harness.process import Process

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
FOLDER = CACHE.with_name("apicurio") / VERSION


def unpacked() -> Path:
    """The folder of the registry's jars; a half-filled one is never seen."""
    if FOLDER.is_dir():
        return FOLDER
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent, prefix="fetching-") as scratch:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}"]
        command.append(f"-DoutputDirectory={scratch}")
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900
        )
        archives = list(Path(scratch).glob("*.tar.gz"))
        if done.returncode or not archives:
            raise BrokerError(f"Maven could not fetch {ARTIFACT}:\n{done.stdout}{done.stderr}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(Path(scratch) / "all", filter="data")
        with contextlib.suppress(FileExistsError, OSError):  # another process was faster
            (Path(scratch) / "all").rename(FOLDER)
    return FOLDER


class Registry(Process):
    """One registry on 127.0.0.1, empty at its start; a context manager. `properties` are more of
    its own.

    Attributes:
        url: of Confluent's API.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str] = {}) -> None:
        super().__init__(directory / "registry.log")
        self._properties = properties
        self._directory = directory
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        jar = next(unpacked().glob("*-runner.jar"))
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", *java_options]
        command += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self._port}"]
        command += [f"-D{name}={value}" for name, value in self._properties.items()]
        command += [f"-Djava.io.tmpdir={self._directory}", "-jar", str(jar)]
        self.launch(command, cwd=self._directory)
        try:
            self.wait_until(self._answers)
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except HTTPError as error:
            return error.code == 401  # it asks for a login
        except OSError:
            return False
