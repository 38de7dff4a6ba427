"""A page's history is read from the end of the output topic, so many messages at a time, to its
beginning.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.harness.bodies import BODY
from tests.harness.broker import KafkaBroker
from tests.harness.load import Sent, send
from tests.harness.patience import TEST_SECONDS
from tests.view.changes import facets_body
from worker.events.json_codec import encode
from worker.events.publishing import FACETS
from worker.kafka.clients import KafkaClients
from worker.registry.lookup import AsJson
from worker.settings import Settings
from worker.stream.surroundings import Threads
from worker.web.page import history as module
from worker.web.page.history import NoHistory, RecentHistory

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]


async def test_it_goes_back_step_by_step(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 10)
    monkeypatch.setattr(module, "MOST_CHANGES", 3)
    kafka.create_topic("page-history", 1)
    sent: list[Sent] = []
    sequences: list[int] = []
    for at in range(35):
        entity_id = "mine" if at % 2 or at > 28 else "other"
        before = sequences[-1] if sequences and entity_id == "mine" else None
        body = structs.replace(BODY, entity_id=entity_id, sequence=at, previous_sequence=before)
        sequences += [at] if entity_id == "mine" else []
        sent.append(Sent(entity_id.encode(), encode(body)))
    send(kafka.bootstrap_servers, "page-history", [*sent, Sent(b"mine", None)])
    settings = Settings(bootstrap_servers=kafka.bootstrap_servers)
    clients = KafkaClients(settings)
    thread = Threads().in_order("history")
    recent = RecentHistory(clients, "page-history", None, "nobody", thread, AsJson(settings))
    found: list[Any] = []
    before = None
    looks = 0
    while True:
        look = await recent.read("mine", before)
        assert look.looked_at <= 10
        assert len(look.changes) <= 3
        found = [*look.changes, *found]
        looks += 1
        if look.before is None:
            break
        assert before is None or look.before < before
        before = look.before
    assert [change.sequence for change in found] == [*sequences, None]
    assert found[-1].tombstone
    assert looks > 3
    assert (await recent.read("nobody", None)).changes == []
    assert (await recent.read("mine", 10**17)).changes == told_last(found)
    nowhere = RecentHistory(clients, "nowhere", None, "nobody", thread, AsJson(settings))
    with pytest.raises(NoHistory, match="there is no topic nowhere"):
        await nowhere.read("mine", None)


def told_last(found: list[Any]) -> list[Any]:
    """What the first look found."""
    return found[-3:]


async def test_a_message_of_facets_is_not_cut(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three changes a message, five an answer: each of them is in one answer."""
    monkeypatch.setattr(module, "MOST_CHANGES", 5)
    kafka.create_topic("page-facets", 1)
    names = ["parking", "noise", "host"]
    bodies = [
        facets_body(
            "mine",
            at,
            {name: {f"r{at}#0": "Good."} for name in names},
            names,
            previous=at - 1 if at else None,
        )
        for at in range(5)
    ]
    send(kafka.bootstrap_servers, "page-facets", [Sent(b"mine", body) for body in bodies])
    clients = KafkaClients(Settings(bootstrap_servers=kafka.bootstrap_servers))
    thread = Threads().in_order("history")
    recent = RecentHistory(clients, "nowhere", "page-facets", "nobody", thread)
    found: list[Any] = []
    before = None
    for _ in bodies:
        look = await recent.read("mine", before, kind=FACETS)
        assert [change.facet for change in look.changes] == names
        found, before = [*look.changes, *found], look.before
    assert before is None
    assert [change.sequence for change in found] == [at for at in range(5) for _ in names]
