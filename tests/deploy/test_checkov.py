"""What checkov says of everything that the chart can make: nothing, but for the skips that give
their reasons in the objects.
"""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.chart import NAMESPACE, render
from tests.deploy.tools import CHECKOV
from tests.harness.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.helm

VALUES = {
    "replay": {"enabled": True, "commandLine": {"EPOCH": 2}},
    "imageDigest": f"sha256:{'0' * 64}",
}


@pytest.mark.long
def test_nothing_is_found_and_every_skip_says_why(tmp_path: Path) -> None:
    objects = [
        {**one, "metadata": {**one["metadata"], "namespace": NAMESPACE}}  # as installed
        for one in render(VALUES)
    ]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    command = [
        CHECKOV / "bin" / "python",
        "-m",
        "checkov.main",
        "--skip-download",
        "--framework",
        "kubernetes",
    ]
    done = subprocess.run(
        [*command, "--output", "json", "--directory", tmp_path],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    found = json.loads(done.stdout)
    results = found["results"]
    assert [(one["check_id"], one["resource"]) for one in results["failed_checks"]] == []
    assert len(results["passed_checks"]) > 300
    skipped = {
        one["check_id"]: one["check_result"]["suppress_comment"]
        for one in results["skipped_checks"]
    }
    assert set(skipped) == {"CKV_K8S_8", "CKV_K8S_9"}
    assert all(skipped.values())
