"""The embedded broker as a fixture, for any suite: `from tests.harness.embedded import embedded_broker` in its conftest."""

from collections.abc import Iterator

import pytest

from worker.demo.broker import EmbeddedBroker


@pytest.fixture
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """A broker without topics; `create_topic` adds them."""
    with EmbeddedBroker() as broker:
        yield broker
