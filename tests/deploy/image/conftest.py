"""Tests of containers run where the image is and something can run it; anywhere else that is an
error, not a skip.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image.containers import ROOT, control, engine, image
from tests.harness.broker import KafkaBroker


@pytest.fixture(scope="session", autouse=True)
def _image(request: pytest.FixtureRequest) -> None:
    """`make image-test` is asked for by somebody who wants to know: a missing engine or image fails
    it.
    """
    if any(item.get_closest_marker("image") for item in request.session.items):
        assert engine(), (
            "neither docker nor podman works here; buildah alone builds and does not run"
        )
        control("image", "inspect", image())


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first forty of the bundled reviews."""
    source = ROOT / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
    target = tmp_path_factory.mktemp("reviews") / "reviews.jsonl"
    with gzip.open(source, "rt") as lines:
        target.write_text("".join(next(lines) for _ in range(40)))
    target.parent.chmod(0o755)
    return target
