"""deploy/compose.yaml: by the schema of Compose, and its commands on a real Kafka that has the
settings it gives its own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import read_topic
from tests.harness.workers import COMMAND, ROOT, WorkerProcess, clean_environment
from worker.settings import Settings, settings_by_field

FILE = ROOT / "deploy" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
WORKERS = sorted(name for name in SERVICES if name.startswith("worker-"))
ENOUGH = 40
"""So many changes prove that the reviews are worked on; the whole file takes a minute."""


def test_the_file_is_what_compose_reads() -> None:
    checker = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", FILE],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_image_has_a_version_and_the_workers_is_the_one_that_is_made() -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert version
    images = {name: service["image"] for name, service in SERVICES.items()}
    ours = {images.pop(name) for name in [*WORKERS, "topics", "sender"]}
    assert ours == {f"${{IMAGE:-localhost/coversumm-worker:{version[1]}}}"}
    assert all(re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", image) for image in images.values())


def test_every_mounted_file_is_there() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", ())]
    paths = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(paths) == len([mount for mount in mounts if mount.endswith(":ro")])
    assert [path for path in paths if not (FILE.parent / path).exists()] == []


def test_every_setting_exists_and_each_worker_has_a_name_of_its_own() -> None:
    known = {setting.variable for setting in settings_by_field().values()}
    given = [
        name
        for service in [*WORKERS, "topics", "sender"]
        for name in SERVICES[service]["environment"]
    ]
    assert set(given) <= known
    assert [SERVICES[name]["environment"]["COVERSUMM_INSTANCE_ID"] for name in WORKERS] == WORKERS
    for name in WORKERS:
        assert (
            int(SERVICES[name]["stop_grace_period"].removesuffix("s")) * 1000
            > Settings().shutdown_timeout_ms
        )


@pytest.mark.promtool
def test_prometheus_reads_its_settings(tmp_path: Path) -> None:
    for mount in SERVICES["prometheus"]["volumes"][:2]:
        shutil.copy(FILE.parent / mount.split(":")[0], tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker with the file's settings, all but its addresses and its folder."""
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in SERVICES["kafka"]["environment"].items()
        if not re.search("LISTENER|VOTERS|LOG_DIRS", name)
    }
    assert given["transaction.state.log.min.isr"] == "1"
    with KafkaBroker(tmp_path / "kafka", given) as broker:
        yield broker


def _environment(name: str, kafka: KafkaBroker) -> dict[str, str]:
    """A service's, with the broker's address."""
    given = {variable: str(value) for variable, value in SERVICES[name]["environment"].items()}
    assert given.pop("KAFKA_BOOTSTRAP_SERVERS") == "kafka:9092"
    return {**given, "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}


def _command(name: str) -> list[str]:
    """A service's, with what is mounted where it is on this machine."""
    mounts = [
        mount.split(":") for mount in SERVICES[name].get("volumes", ()) if mount.startswith(".")
    ]
    words = list(SERVICES[name]["command"])
    for source, target, _ in mounts:
        words = [word.replace(target, str((FILE.parent / source).resolve())) for word in words]
    return [*COMMAND, *words]


def _healthy(worker: WorkerProcess, name: str) -> bool:
    """What the service's health check says, asked of the port that is the worker's here."""
    kind, *words = SERVICES[name]["healthcheck"]["test"]
    assert (kind, words.pop(0)) == ("CMD", "python")
    asked = [sys.executable, *(word.replace(":8080/", f":{worker.web_port}/") for word in words)]
    return subprocess.run(asked, capture_output=True, timeout=PATIENCE_SECONDS).returncode == 0


@pytest.mark.kafka
@pytest.mark.long
def test_its_commands_make_topics_start_workers_and_send_reviews(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    topics = subprocess.run(
        _command("topics"),
        cwd=ROOT,
        env=clean_environment(_environment("topics", kafka)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert topics.returncode == 0, topics.stdout + topics.stderr
    with ExitStack() as ends:
        workers = {}
        for name in WORKERS:
            address = f"http://127.0.0.1:{free_port()}"
            settings = {**_environment(name, kafka), "COVERSUMM_WEB_ADVERTISED_URL": address}
            workers[name] = WorkerProcess(tmp_path / name, settings)
            ends.callback(workers[name].discard)
            workers[name].start()
        # One that is ready is not while the next one joins.
        eventually(
            lambda: all(_healthy(worker, name) for name, worker in workers.items()),
            lambda: "\n".join(worker.log_end() for worker in workers.values()),
        )
        with subprocess.Popen(
            _command("sender"), cwd=ROOT, env=clean_environment(_environment("sender", kafka))
        ) as sender:
            ends.callback(sender.kill)
            eventually(
                lambda: (
                    len(list(read_topic(kafka.bootstrap_servers, Settings().output_topic)))
                    >= ENOUGH
                ),
                lambda: "\n".join(worker.log_end() for worker in workers.values()),
            )
            sender.kill()
        assert [worker.terminate() for worker in workers.values()] == [0, 0]
        assert not any(_healthy(worker, name) for name, worker in workers.items())
