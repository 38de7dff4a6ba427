"""The composition root: the ways a worker is started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.harness.embedded import EmbeddedBroker
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from worker import app as module
from worker.errors import SetupError
from worker.kafka.topics import topic_specs
from worker.settings import Settings
from worker.settings.environment import environment_with

ROOT = Path(__file__).resolve().parent.parent


def test_an_unknown_name_of_the_root_is_no_app() -> None:
    """`app` alone is built when it is asked for: that reads settings and asks the broker."""
    with pytest.raises(AttributeError):
        _ = module.application


def test_wrong_facets_end_a_worker_before_any_broker_is_asked(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    settings = Settings(
        bootstrap_servers="localhost:1",
        data_dir=tmp_path,
        embedder="none",
        facets="preset:none",
        web_port=unused_tcp_port,
    )
    with pytest.raises(SetupError, match="COVERSUMM_FACETS: no preset 'none'"):
        module.build_app(settings)


@pytest.mark.long
def test_fausts_own_command_line_runs_the_worker(tmp_path: Path, unused_tcp_port: int) -> None:
    """`faust -A worker.app worker`: up to readiness, and a stop in order."""
    with EmbeddedBroker() as broker:
        for spec in topic_specs(Settings()).values():
            broker.create_topic(spec.name, 2)
        variables = {
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "COVERSUMM_DATA_DIR": str(tmp_path / "data"),
            "COVERSUMM_EMBEDDER": "none",
            "COVERSUMM_WEB_PORT": str(unused_tcp_port),
        }
        log = tmp_path / "log"
        with log.open("wb") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", "faust", "-A", "worker.app", "worker"],
                cwd=ROOT,
                env=environment_with(variables),
                stdout=output,
                stderr=output,
            )
        try:
            eventually(
                lambda: worker.poll() is not None or _is_ready(unused_tcp_port), log.read_text
            )
            assert worker.poll() is None, log.read_text()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(PATIENCE_SECONDS) == 0, log.read_text()
        finally:
            worker.kill()
            worker.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(json.load(answer)["ready"])
    except HTTPError as refusal:
        refusal.close()
    except OSError:
        pass
    return False
