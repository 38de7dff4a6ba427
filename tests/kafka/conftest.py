"""The session's broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka.broker import KafkaBroker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. Tests keep apart by topics, group and application id, never by a fresh broker."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
