"""A running worker for commands that meet one."""

import subprocess
import sys
import urllib.request
from contextlib import suppress

import pytest

from tests.harness.eventually import eventually
from tests.harness.node import free_port
from worker.kafka.topics import topic_specs
from worker.settings import Settings

COMMAND = [sys.executable, "-m", "worker", "run"]


@pytest.fixture
def worker(embedded_broker, monkeypatch, tmp_path):
    """Start a worker on a broker of its own."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    monkeypatch.setenv("COVERSUMM_WEB_PORT", str(free_port()))
    monkeypatch.setenv("COVERSUMM_K", "3")
    monkeypatch.setenv("COVERSUMM_LOG_FORMAT", "json")
    for spec in topic_specs(Settings.from_environment()).values():
        embedded_broker.create_topic(spec.name, 2)
    log = tmp_path / "worker.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(COMMAND, stdout=output, stderr=output) as process,
    ):
        try:
            _wait(process, log)
            yield process
        finally:
            process.kill()


def _wait(process, log):
    url = f"http://127.0.0.1:{Settings.from_environment().web_port}/readyz"

    def is_ready():
        assert process.poll() is None, log.read_text()
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        return False

    eventually(is_ready, log.read_text)
