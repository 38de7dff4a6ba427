"""A static member gets its former assignment, which was made for its former address. A partition
goes to a member that has its rows, and each member gets its share.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata

from tests.harness.stream import CHANGELOG, INPUT, make_app
from worker.storage.databases import HELD, database_path, note_held, read_held
from worker.stream.faust.assignor import StaticAssignor

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
def app(tmp_path: Path) -> Any:
    return make_app(tmp_path, canonical_url=NOW)


@pytest.fixture
def site(app: Any) -> Site:
    return Site(app)


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


# -- who gets which partition ----------------------------------------------------------------------

Given = dict[str, list[int]]


def assigned(
    app: Any, count: int, actives: Given, standbys: Given, replicas: int = 0
) -> tuple[Given, Given]:
    """What members get of `count` partitions that announce these, by the name of each."""
    topics = [INPUT, CHANGELOG]
    cluster = SimpleNamespace(partitions_for_topic=lambda _: set(range(count)))
    members = {
        name: ConsumerProtocolMemberMetadata(
            4,
            topics,
            ClientMetadata(
                assignment=ClientAssignment(
                    actives=dict.fromkeys(topics, actives.get(name, [])),
                    standbys=dict.fromkeys(topics, standbys.get(name, [])),
                ),
                url=f"http://{name}",
                changelog_distribution={},
            ).dumps(),
        )
        for name in sorted({*actives, *standbys})
    }
    made = StaticAssignor(app, replicas=replicas).assign(cluster, members)
    found = {
        name: ClientMetadata.loads(zlib.decompress(metadata.user_data)).assignment
        for name, metadata in made.items()
    }
    for assignment in found.values():
        assert assignment.actives[INPUT] == assignment.actives[CHANGELOG]
        assert not set(assignment.actives[CHANGELOG]) & set(assignment.standbys[CHANGELOG])
    return (
        {name: sorted(assignment.actives[INPUT]) for name, assignment in found.items()},
        {name: sorted(assignment.standbys[CHANGELOG]) for name, assignment in found.items()},
    )


@pytest.mark.parametrize(
    ("actives", "held", "expected"),
    [
        ({"a": [0, 1, 2, 3]}, {"b": [0, 2]}, {"a": [1, 3], "b": [0, 2]}),
        ({"a": [0, 1, 2, 3]}, {"b": [0, 1, 2, 3]}, {"a": [0, 1], "b": [2, 3]}),
        ({"a": [0, 1, 2, 3]}, {"b": []}, {"a": [0, 1], "b": [2, 3]}),
        ({}, {"a": [2, 3], "b": [0, 1]}, {"a": [2, 3], "b": [0, 1]}),
        ({"a": [0, 3, 5], "b": [1, 2, 4]}, {"c": [4, 5]}, {"a": [0, 3], "b": [1, 2], "c": [4, 5]}),
        ({"a": [0, 1, 2], "b": [3, 4, 7], "c": [5, 6]}, {}, None),  # nothing moves
        ({"a": [0, 1], "b": [0, 2]}, {}, {"a": [0, 1], "b": [2, 3]}),  # one of them is past
        ({"a": [1]}, {"b": [0], "c": [0]}, {"a": [1], "b": [0], "c": []}),
    ],
)
def test_a_partition_goes_to_a_member_that_has_its_rows(
    app: Any, actives: Given, held: Given, expected: Given | None
) -> None:
    count = 2 if "c" in held and "b" in held else 1 + max(map(max, (*actives.values(), [3])))
    assert assigned(app, count, actives, held)[0] == (expected or actives)


def test_any_group_gets_a_balanced_assignment_that_lasts(app: Any) -> None:
    randomly = random.Random(7)
    for _ in range(200):
        count, names = randomly.randint(1, 20), "abcdefg"[: randomly.randint(1, 7)]
        owners = [randomly.choice([*names, None]) for _ in range(count)]
        actives = {name: [p for p in range(count) if owners[p] == name] for name in names}
        held = {
            name: [] if actives[name] else randomly.sample(range(count), randomly.randint(0, count))
            for name in names
        }
        replicas = randomly.randint(0, 2)
        given, standbys = assigned(app, count, actives, held, replicas)
        assert sorted(p for assignment in given.values() for p in assignment) == list(range(count))
        sizes = sorted(map(len, given.values()))
        assert sizes[-1] - sizes[0] <= 1
        copies = Counter(p for standby in standbys.values() for p in standby)
        expected = min(replicas, len(names) - 1)
        assert [copies[p] for p in range(count)] == [expected] * count
        assert assigned(app, count, actives, held, replicas) == (given, standbys)
        assert assigned(app, count, given, standbys, replicas) == (given, standbys)


def test_a_process_that_starts_announces_what_it_held_last(site: Site, tmp_path: Path) -> None:
    held = tmp_path / "data"
    site.assignor.app.conf.datadir = held
    for partition in (1, 3):  # of two
        database_path(held, partition).mkdir(parents=True)
    for noted, announced in (([1], [1]), ([3, 1, 0], [1]), ([], [])):
        note_held(held, noted)
        assert site.described.assignment.standbys == {INPUT: announced}
    site.assign(NOW)
    note_held(held, [1])
    assert site.described.assignment.actives == {INPUT: [3]}
    assert site.described.assignment.standbys == {}
    for broken in ("1 two", "\0"):
        (held / HELD).write_text(broken)
        assert read_held(held, 5) == []
