"""From the chart of an earlier build to this one: in place, and as a second release with a new
epoch beside the running one, which is what an incompatible version needs.

Nothing runs in these pods; `upgrade.py` does the same with real workers under load, and counts.
"""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from docs.build.chart import CHART
from tests.deploy.chart import RELEASE
from tests.deploy.cluster.release import ENOUGH, PODS, Release, deleted, least_ready
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(TEST_SECONDS)]

EARLIER = "23dcc19"
REPLAY = "app.kubernetes.io/component=replay"
SECOND = f"{RELEASE}-2"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart of an earlier commit."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = subprocess.run(
        ["git", "archive", EARLIER, "deploy/chart"],
        cwd=CHART.parents[1],
        check=True,
        capture_output=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "deploy" / "chart"


def helm(release: Release, *arguments: str | Path) -> None:
    release.plane.helm("--namespace", release.namespace, *arguments)


@pytest.fixture
def running(empty: Release, earlier: Path) -> Release:
    """Three ready workers of the earlier chart."""
    helm(empty, "install", RELEASE, earlier, *ENOUGH)
    assert sorted(empty.pods()) == PODS
    return empty


def test_in_place_one_worker_after_the_other_and_back(running: Release) -> None:
    claims = running.claims()
    with running.watched() as told:
        running.upgrade()
    assert deleted(told) == PODS[::-1]
    assert least_ready(told) == 2
    assert running.claims() == claims
    running.test()
    running.rollback()
    running.wait_until_all_ready()
    assert running.claims() == claims


def test_a_new_version_with_a_new_epoch_beside_the_running_one(running: Release) -> None:
    """The commands of docs/upgrade.md. The workers of the earlier chart stay as they are."""
    before = running.uids()
    new = ("--set", "imageTag=1.0.0", "--set", "commandLine.EPOCH=2")
    build = ("--set", "replicaCount=0", "--set", "replay.enabled=true")
    helm(running, "install", SECOND, CHART, *new, *build, *ENOUGH)
    running.kubectl(
        "wait", "--for=condition=complete", "job", "--selector", REPLAY, "--timeout=60s"
    )
    (job,) = running.plane.get(running.namespace, "jobs", "--selector", REPLAY)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":1.0.0")
    names = {one["name"]: one.get("value") for one in container["env"]}
    assert (names["COVERSUMM_EPOCH"], names["COVERSUMM_APP_ID"]) == ("2", "coversumm-worker")
    assert running.uids() == before
    resume = (
        "--set",
        "kafka.applicationId=coversumm-worker-replay-epoch-2",
        "--set",
        "kafka.outputTopic=marketplace.review-summaries.v1.epoch-2",
    )
    helm(running, "upgrade", SECOND, CHART, *new, *resume, *ENOUGH)
    helm(running, "test", SECOND)
    assert len(running.pods()) == 6
    assert {name: uid for name, uid in running.uids().items() if name in PODS} == before
    helm(running, "uninstall", RELEASE, *ENOUGH)
    eventually(lambda: len(running.pods()) == 3, lambda: "workers of the first release stay")
