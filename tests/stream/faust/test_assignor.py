"""A static member gets the assignment of before: made for the address that it had then."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata

from tests.harness.stream import INPUT, make_app
from worker.stream.faust.application import StaticAssignor

NOW, BEFORE, OTHER = "http://10.0.0.2:8080", "http://10.0.0.1:8080", "http://10.0.0.9:8080"


class Site:
    """An assignor of a worker at the address `NOW`, and how often it wanted the group to be joined
    again.
    """

    def __init__(self, app: Any) -> None:
        self.again = 0
        self.has_owners: list[bool] = []
        app.consumer = SimpleNamespace(
            join_again=self._join_again, group_assigned=self.has_owners.append
        )
        self.assignor = StaticAssignor(app)

    def _join_again(self) -> None:
        self.again += 1

    def assign(
        self,
        url: str,
        by_kafka: dict[str, list[int]] | None = None,
        others: tuple[int, ...] = (0, 1),
    ) -> None:
        """An assignment of partition 3 that was made for this address; `by_kafka`: what Kafka
        itself says, if not the same; `others`: the partitions of the input that another member has.
        """
        actives = {INPUT: [3]} if others else {}
        described = ClientMetadata(
            assignment=ClientAssignment(actives=actives, standbys={}),
            url=url,
            changelog_distribution={url: {}, OTHER: {}},
            external_topic_distribution={url: {}, OTHER: {INPUT: list(others)}},
        )
        made = ConsumerProtocolMemberAssignment(
            4, sorted((by_kafka or actives).items()), zlib.compress(described.dumps())
        )
        self.assignor.on_assignment(made)

    @property
    def described(self) -> Any:
        """What it will say of itself when it joins."""
        return ClientMetadata.loads(self.assignor.metadata({INPUT}).user_data)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(make_app(tmp_path, canonical_url=NOW))


def test_an_assignment_for_the_same_address_is_taken_as_it_is(site: Site) -> None:
    site.assign(NOW)
    assert site.again == 0
    assert site.assignor.assigned_actives() == {(INPUT, 3)}


def test_an_assignment_for_a_former_address_is_taken_and_the_group_hears_of_the_new_one(
    site: Site,
) -> None:
    before = site.described
    site.assign(BEFORE)
    assert site.again == 1
    assert site.assignor.assigned_actives() == {(INPUT, 3)}
    assert OTHER in site.assignor.tables_metadata()
    # A broker rebalances for a member that joins with another description than its last.
    assert (site.described.url, site.described.assignment.actives) == (NOW, {INPUT: [3]})
    assert site.described != before


@pytest.mark.parametrize("others", [(), (0, 1)])
def test_whether_the_group_gave_the_input_to_anybody_is_known(
    site: Site, others: tuple[int, ...]
) -> None:
    """It did not if the topic was missing."""
    site.assign(NOW, others=others)
    assert site.has_owners == [bool(others)]


def test_an_assignment_that_contradicts_itself_is_still_an_error(site: Site) -> None:
    with pytest.raises(AssertionError, match="!="):
        site.assign(NOW, by_kafka={INPUT: [4]})
