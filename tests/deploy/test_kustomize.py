"""The kustomize base is the chart with its default values."""

import pytest
import yaml

from docs.build.kustomize import BASE, NAME, base_files
from tests.deploy import chart

pytestmark = pytest.mark.helm


def test_the_base_is_as_rendered() -> None:
    wanted = dict(base_files())
    found = {path: path.read_text() for path in BASE.iterdir()}
    assert found == wanted, "run `make kustomize`"


def test_the_base_has_every_object_but_hooks() -> None:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    files = [(BASE / name).read_text() for name in kustomization["resources"]]
    found = {
        (one["kind"], one["metadata"]["name"])
        for text in files
        for one in yaml.safe_load_all(text)
        if one
    }
    text = chart.helm("template", NAME, chart.CHART, "--no-hooks", "--skip-tests")
    assert found == {
        (one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(text) if one
    }
    assert ("StatefulSet", NAME) in found
    assert not any("helm" in text.lower() for text in files)
