"""The examples of deploy/examples for GitOps and Terraform, each by the schema or the tool of its
kind, and their values by the chart.

Flux' definitions are not among Go's modules here: of its release only the values are checked.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.build.chart import DEPLOY
from tests.deploy.chart import complaints, only, render, worker
from tests.harness.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.helm

EXAMPLES = DEPLOY / "examples"
STRIMZI = DEPLOY / "strimzi"


def documents(*names: str) -> list[Any]:
    return [
        document for name in names for document in yaml.safe_load_all((EXAMPLES / name).read_text())
    ]


def test_argo_cd_takes_the_application() -> None:
    (application,) = documents("argocd/application.yaml")
    assert complaints([application]) == []
    source = application["spec"]["source"]
    assert (DEPLOY.parent / source["path"] / "Chart.yaml").exists()
    made = render(source["helm"]["valuesObject"])
    assert complaints(made) == []
    check = only(made, "Job", "-upgrade-check")["spec"]["template"]["spec"]
    assert check["serviceAccountName"] == "default", "its first synchronization has no other"


def test_the_chart_takes_the_values_of_flux() -> None:
    source, release = documents("flux/release.yaml")
    wanted = release["spec"]["chart"]["spec"]
    assert (wanted["sourceRef"]["kind"], wanted["sourceRef"]["name"]) == (
        source["kind"],
        source["metadata"]["name"],
    )
    assert (DEPLOY.parent / wanted["chart"] / "Chart.yaml").exists()
    assert complaints(render(release["spec"]["values"])) == []


def test_workers_read_the_secret_that_external_secrets_makes() -> None:
    store, secret = documents("external-secrets/kafka.yaml")
    assert complaints([store, secret]) == []
    assert secret["spec"]["secretStoreRef"]["name"] == store["metadata"]["name"]
    (values,) = documents("external-secrets/values.yaml")
    made = render(values)
    (found,) = [
        variable["value"] for variable in worker(made)["env"] if "PASSWORD" in variable["name"]
    ]
    (key,) = [reference["secretKey"] for reference in secret["spec"]["data"]]
    (files,) = values["secretFilesRefs"]
    assert files["name"] == secret["spec"]["target"]["name"]
    assert found == f"{files['mountPath']}/{key}"
    account = store["spec"]["provider"]["vault"]["auth"]["kubernetes"]["serviceAccountRef"]["name"]
    assert account == only(made, "ServiceAccount")["metadata"]["name"]


def terraform(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    command = ["terraform", f"-chdir={folder}", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Terraform itself makes of the locals; its provider for Kafka is not among packages."""
    if shutil.which("terraform") is None:
        pytest.skip("terraform is missing")
    folder = tmp_path_factory.mktemp("terraform")
    text = (EXAMPLES / "terraform" / "main.tf").read_text()
    text = re.sub(r"^  required_providers \{.*?^  \}\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^(provider|resource) .*?^\}\n", "", text, flags=re.M | re.S)
    outputs = ("topics", "permissions", "partitions")
    text += "".join(f'output "{name}" {{ value = local.{name} }}\n' for name in outputs)
    (folder / "main.tf").write_text(text)
    terraform(folder, "init", "-backend=false", "-input=false")
    terraform(folder, "apply", "-auto-approve", "-input=false", "-var=bootstrap_servers=[]")
    found = json.loads(terraform(folder, "output", "-json"))
    return {name: found[name]["value"] for name in outputs}


def test_terraform_makes_the_topics_of_strimzi(planned: dict[str, Any]) -> None:
    terraform(EXAMPLES / "terraform", "fmt", "-check")
    topics = list(yaml.safe_load_all((STRIMZI / "topics.yaml").read_text()))
    assert planned["topics"] == {
        topic["metadata"]["name"]: {
            name: str(value)
            for name, value in topic["spec"]["config"].items()
            if name != "min.insync.replicas"
        }
        for topic in topics
    }
    assert {topic["spec"]["partitions"] for topic in topics} == {planned["partitions"]}


def test_terraform_gives_the_permissions_of_strimzi(planned: dict[str, Any]) -> None:
    user = yaml.safe_load((STRIMZI / "user.yaml").read_text())
    wanted = {
        (
            acl["resource"]["type"].lower(),
            acl["resource"]["name"],
            operation,
            acl["resource"]["patternType"] == "prefix",
        )
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    found = planned["permissions"]
    assert {
        (rule["type"].lower(), rule["name"], rule["operation"], rule["pattern"] == "Prefixed")
        for rule in found
    } == wanted
    assert len(found) == len(wanted)
