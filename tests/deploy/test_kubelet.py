"""The kubelet that is played to real workers does what a kubelet does, where it matters to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import served
from tests.deploy.kubelet import Kubelet
from tests.harness.eventually import NotInTime, eventually
from tests.harness.patience import TEST_SECONDS
from tests.harness.workers import WorkerError, WorkerProcess

pytestmark = pytest.mark.timeout(TEST_SECONDS)


def probe(path: str, failures: int) -> dict[str, Any]:
    """A quick one."""
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": 0.1,
        "failureThreshold": failures,
    }


CONTAINER = {
    "startupProbe": probe("/up", 100),
    "livenessProbe": probe("/alive", 3),
    "readinessProbe": probe("/ready", 2),
}


class Played:
    """A pod of which the tests say what it answers."""

    def __init__(self, directory: Path, container: dict[str, Any], grace_s: float) -> None:
        self._data = directory / "data"
        self._data.mkdir()
        process = WorkerProcess(directory, {}, launcher=served.__name__)
        self.pod = Kubelet("pod", process, container, grace_s)

    def answer(self, *paths: str) -> None:
        """These, and no others."""
        for file in self._data.iterdir():
            file.unlink()
        for path in paths:
            (self._data / path).touch()


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    made = Played(tmp_path, CONTAINER, 1.0)
    yield made
    made.pod.process.discard()


def test_the_other_probes_wait_for_the_startup_probe(played: Played) -> None:
    played.answer("ready")  # and not alive
    played.pod.start()
    with pytest.raises(NotInTime, match="after 1 s"):
        eventually(
            lambda: played.pod.healthy() and played.pod.ready, lambda: "not ready", timeout_s=1.0
        )
    played.answer("up", "alive", "ready")
    played.pod.wait_ready()
    assert 1.0 < played.pod.startup_s <= played.pod.ready_s
    assert played.pod.stop()[0] == 0
    assert not played.pod.ready


def test_it_is_ready_as_long_as_the_probe_passes(played: Played) -> None:
    played.answer("up", "alive", "ready")
    played.pod.start()
    played.pod.wait_ready()
    played.answer("up", "alive")
    eventually(lambda: not played.pod.ready, lambda: "still ready")
    played.answer("up", "alive", "ready")
    played.pod.wait_ready()
    replaced = played.pod.replace(0.5)
    assert (replaced.exit_code, played.pod.ready) == (0, True)


def test_a_liveness_probe_that_fails_too_often_is_told(played: Played) -> None:
    played.answer("up", "alive", "ready")
    played.pod.start()
    played.pod.wait_ready()
    played.answer("up", "ready")
    with pytest.raises(WorkerError, match="the liveness probe failed 3 times"):
        eventually(lambda: not played.pod.healthy(), lambda: "the pod stays healthy")


def test_a_container_that_does_not_start_up_is_told(tmp_path: Path) -> None:
    played = Played(tmp_path, {**CONTAINER, "startupProbe": probe("/up", 5)}, 1.0)
    played.pod.start()
    try:
        with pytest.raises(WorkerError, match="the startup probe failed 5 times"):
            played.pod.wait_ready()
    finally:
        played.pod.process.discard()


def test_a_process_has_the_grace_period_to_end(played: Played) -> None:
    played.answer("up", "alive", "ready", "stubborn")
    played.pod.start()
    played.pod.wait_ready()
    with pytest.raises(WorkerError, match="it did not end within 1 s"):
        played.pod.stop()
    assert not played.pod.process.alive


def test_a_probe_that_it_does_not_play_is_refused(tmp_path: Path) -> None:
    slow = {**CONTAINER, "startupProbe": {**probe("/up", 5), "initialDelaySeconds": 10}}
    with pytest.raises(AssertionError, match="initialDelaySeconds"):
        Played(tmp_path, slow, 1.0)
