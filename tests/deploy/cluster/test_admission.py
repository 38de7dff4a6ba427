"""Everything that the chart can make is taken by a real API server, in a namespace that enforces
`restricted`.
"""

import json
from typing import Any

import pytest
import yaml

from tests.deploy.chart import FULLNAME, Object, only, render
from tests.deploy.cluster.control_plane import ControlPlane, Refused
from tests.deploy.cluster.release import Release
from tests.deploy.matrix import MATRIX
from tests.harness.eventually import eventually
from tests.harness.patience import TEST_SECONDS

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(TEST_SECONDS)]

DRY_RUN = ("apply", "--server-side", "--dry-run=server", "--validate=strict")
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1,
}


@pytest.fixture(scope="module")
def namespace(plane: ControlPlane) -> str:
    """A namespace with what pods of the matrix name."""
    made = Release(plane, "admission")
    made.kubectl("create", "serviceaccount", FULLNAME)
    plane.create(PRIORITY)
    eventually(
        lambda: len(plane.get(made.namespace, "serviceaccounts")) == 2,
        lambda: "no default service account",
    )
    return made.namespace


def told(plane: ControlPlane, namespace: str, objects: list[Object]) -> str:
    """The warnings of the API server about objects that it would take; Refused where it
    would not.
    """
    text = yaml.safe_dump_all(objects)
    return plane.warnings("-n", namespace, *DRY_RUN, "-f", "-", stdin=text)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_what_is_rendered_is_admitted(
    plane: ControlPlane, namespace: str, values: dict[str, Any]
) -> None:
    assert told(plane, namespace, render(values)) == ""


def test_what_the_api_server_does_not_know_is_refused(plane: ControlPlane, namespace: str) -> None:
    made = only(render(), "StatefulSet")
    with pytest.raises(Refused, match="replicaz"):
        told(plane, namespace, [{**made, "spec": {**made["spec"], "replicaz": 3}}])


def test_a_pod_that_is_not_restricted_is_refused(plane: ControlPlane, namespace: str) -> None:
    """The control: the namespace does enforce the level, and says so of a StatefulSet whose pods it
    would not take.
    """
    made: Object = json.loads(json.dumps(only(render(), "StatefulSet")))
    template = made["spec"]["template"]
    del template["spec"]["securityContext"]["runAsNonRoot"]
    assert "would violate PodSecurity" in told(plane, namespace, [made])
    volumes = [*template["spec"]["volumes"], {"name": "data", "emptyDir": {}}]
    spec = {**template["spec"], "volumes": volumes}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": spec}
    with pytest.raises(Refused, match=r'violates PodSecurity "restricted:latest".*runAsNonRoot'):
        told(plane, namespace, [pod])
