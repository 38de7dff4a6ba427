"""What a cluster's own programs do to a release: evictions, scaling, upgrades, and the way back
from a bad one.
"""

from typing import Any

import pytest

from tests.deploy.chart import Object
from tests.deploy.cluster.control_plane import ZONES, Refused
from tests.deploy.cluster.release import PODS, Release, deleted, is_ready, least_ready
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(TEST_SECONDS)]

BAD: dict[str, Any] = {"imageTag": "no-such-tag"}
"""kwok does not start it (`stages.yaml`)."""
SOON = ("--wait", "--timeout", "15s")
REFUSED = r"TooManyRequests.*would violate the pod's disruption budget"


def image_of(pod: Object) -> str:
    """The image of a worker's pod."""
    return str(pod["spec"]["containers"][0]["image"])


def test_three_workers_get_ready_apart_from_each_other(release: Release) -> None:
    found = release.pods()
    assert sorted(found) == PODS
    assert {pod["spec"]["nodeName"] for pod in found.values()} == {f"node-{zone}" for zone in ZONES}
    assert len({claim.volume for claim in release.claims().values()}) == 3
    for pod in found.values():
        assert not any("projected" in volume for volume in pod["spec"]["volumes"]), "a token"
    eventually(lambda: endpoints(release) == [3, 3], lambda: f"{endpoints(release)}")
    release.test()


def endpoints(release: Release) -> list[int]:
    """How many pods each of the services has."""
    slices = release.plane.get(release.namespace, "endpointslices")
    return [len(part["endpoints"] or []) for part in slices]


def test_a_replay_is_a_job_that_ends(release: Release) -> None:
    before = release.uids()
    release.upgrade({"replay": {"enabled": True, "commandLine": {"EPOCH": 2}}})
    replay = "app.kubernetes.io/component=replay"
    release.kubectl(
        "wait", "--for=condition=complete", "job", "--selector", replay, "--timeout=60s"
    )
    (job,) = release.plane.get(release.namespace, "jobs", "--selector", replay)
    assert job["status"]["succeeded"] == 2
    assert release.uids() == before


def test_a_second_eviction_is_refused(release: Release) -> None:
    first, _, last = PODS
    release.kubectl("annotate", "pod", last, "still-ending=")
    release.evict(last)
    with pytest.raises(Refused, match=REFUSED):
        release.evict(first)
    release.kubectl("annotate", "pod", last, "still-ending-")
    release.wait_until_all_ready()
    eventually(lambda: allowed(release) == 1, lambda: "the budget does not see that all are ready")
    release.evict(first)
    release.wait_until_all_ready()


def test_a_worker_that_does_not_get_ready_does_not_hold_up_a_drain(release: Release) -> None:
    release.upgrade({**BAD, "upgradeCheck": {"enabled": False}}, "--timeout", "60s")
    first, _, last = PODS
    eventually(lambda: is_stuck(release, last), lambda: "the bad image runs")
    with pytest.raises(Refused, match=REFUSED):
        release.evict(first)
    release.evict(last)


def allowed(release: Release) -> int:
    """How many pods the budget would let go now."""
    (budget,) = release.plane.get(release.namespace, "poddisruptionbudgets")
    return int(budget["status"]["disruptionsAllowed"])


def is_stuck(release: Release, name: str) -> bool:
    """Whether a pod has the bad image."""
    pod = release.pods().get(name)
    return pod is not None and image_of(pod).endswith("no-such-tag") and not is_ready(pod)


def test_scaled_down_and_up_workers_find_their_volumes(release: Release) -> None:
    before = release.claims()
    assert sorted(before) == PODS
    release.upgrade({"replicaCount": 1})
    eventually(lambda: sorted(release.pods()) == PODS[:1], lambda: "two do not go")
    assert release.claims() == before
    release.upgrade({"replicaCount": 3})
    release.wait_until_all_ready()
    assert release.claims() == before


def test_volumes_outlive_the_release(release: Release) -> None:
    before = release.claims()
    release.uninstall()
    eventually(lambda: release.pods() == {}, lambda: "pods do not go")
    assert release.claims() == before
    release.install()
    assert release.claims() == before
    release.wait_until_all_ready()


def test_an_upgrade_replaces_one_worker_after_the_other_and_keeps_who_they_are(
    release: Release,
) -> None:
    uids, claims = release.uids(), release.claims()
    with release.watched() as told:
        release.upgrade({"commandLine": {"LOG_LEVEL": "DEBUG"}})
    assert deleted(told) == PODS[::-1]
    assert least_ready(told) == 2
    assert release.claims() == claims
    found = release.uids()
    assert sorted(found) == PODS
    assert not set(found.values()) & set(uids.values())


def test_an_upgrade_that_does_not_concern_the_pods_leaves_them_alone(release: Release) -> None:
    before, revision = release.uids(), revision_of(release)
    release.upgrade(
        {"podDisruptionBudget": {"maxUnavailable": 2}, "annotations": {"team": "reviews"}}
    )
    eventually(lambda: allowed(release) == 2, lambda: "the budget has not changed")
    eventually(lambda: has_seen_its_change(release), lambda: "the controller has not looked")
    assert revision_of(release) == revision, "pods that are still there would be replaced"
    assert release.uids() == before


def test_an_image_that_is_not_there_is_found_before_any_worker_is_touched(release: Release) -> None:
    before = release.uids()
    with pytest.raises(Refused, match="pre-upgrade hooks failed"):
        release.upgrade(BAD, *SOON)
    assert release.uids() == before
    release.rollback()
    assert release.uids() == before


def test_the_way_back_from_a_bad_image_needs_no_deletion_by_hand(release: Release) -> None:
    uids, claims = release.uids(), release.claims()
    with pytest.raises(Refused, match=r"deadline exceeded|timed out"):
        release.upgrade({**BAD, "upgradeCheck": {"enabled": False}}, *SOON)
    *others, last = PODS
    assert is_stuck(release, last)
    release.rollback()
    release.wait_until_all_ready()
    found = release.uids()
    assert {name: found[name] for name in others} == {name: uids[name] for name in others}
    assert found[last] != uids[last]
    assert release.claims() == claims


def revision_of(release: Release) -> str:
    """Which revision of its pods the StatefulSet wants."""
    (found,) = release.plane.get(release.namespace, "statefulsets")
    return str(found["status"]["updateRevision"])


def has_seen_its_change(release: Release) -> bool:
    """Whether the controller has acted on the last change of the StatefulSet."""
    (found,) = release.plane.get(release.namespace, "statefulsets")
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])
