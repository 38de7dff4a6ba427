"""Commands run in this process, without outside settings, on files and brokers of their own."""

import gzip
import os
import sys
from typing import NamedTuple

import pytest

from tests.cli.running import worker
from tests.cli.web_worker import port
from tests.harness.embedded import embedded_broker
from worker.cli.group import execute

__all__ = ["embedded_broker", "port", "worker"]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("COVERSUMM_", "KAFKA_")) and not name.startswith("COVERSUMM_TESTS"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COVERSUMM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COVERSUMM_EMBEDDER", "none")
    monkeypatch.setenv("COVERSUMM_DIMENSION", "3")


@pytest.fixture
def run(capfd):
    """Run a command line; its exit code and what it wrote."""

    def run(*arguments):
        capfd.readouterr()
        code = execute([str(argument) for argument in arguments])
        return Ended(code, *capfd.readouterr())

    return run


@pytest.fixture
def terminal(monkeypatch):
    """Commands believe that standard output is a terminal, wide enough for every cell."""

    def begin():
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    monkeypatch.setenv("COLUMNS", "200")
    return begin


@pytest.fixture
def write(tmp_path):
    """Write lines (bytes) to a file, compressed if its name says so."""

    def write(name, lines):
        path = tmp_path / name
        data = b"".join(line + b"\n" for line in lines)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write
