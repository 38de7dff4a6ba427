"""One control plane for all tests: each has a namespace of its own in it."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.deploy.cluster.control_plane import ControlPlane
from tests.deploy.cluster.release import Release

_numbers = count(1)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture
def empty(plane: ControlPlane) -> Release:
    """A namespace in which nothing is installed."""
    return Release(plane, f"reviews-{next(_numbers)}")


@pytest.fixture
def release(empty: Release) -> Release:
    """The chart with its default values, three workers ready."""
    empty.install()
    return empty
