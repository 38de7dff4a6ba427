"""A replay in a world: what its processes agree on, and the bounds of each. Their worker and ledger
are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from tests.harness.compare import Change
from tests.simulation.broker import Broker
from tests.simulation.clients import Caller
from tests.simulation.load import FACETS
from tests.simulation.plan import Setup
from tests.simulation.surroundings import Clients
from worker.processing.config import Emit
from worker.replay.plan import ReplayPlan
from worker.replay.ranges import Range
from worker.replay.request import ReplayIdentity, Request
from worker.replay.run import Replay
from worker.settings import Settings
from worker.stream.run_bounds import RunBounds


def names_of(live: Settings, emit: Emit) -> ReplayIdentity:
    """What a replay of the live worker's input has of its own."""
    request = Request(
        name="again", topic=live.input_topic, to_topic=f"{live.output_topic}.again", emit=emit
    )
    return ReplayIdentity(live, request)


def _from_nothing(change: Change) -> Change:
    assert change.body is not None
    if change.of_facets:
        names = [facet["name"] for facet in change.body["facets"] if facet["sentences"]]
        order = [facet.name for facet in FACETS.facets]
        changed = sorted(names, key=order.index)
        return change._replace(body=change.body | {"previous_sequence": None, "changed": changed})
    added = [sentence["sentence_id"] for sentence in change.body["sentences"]]
    return change._replace(
        body=change.body | {"previous_sequence": None, "added": added, "removed": []}
    )


def _has_sentences(body: dict[str, Any]) -> bool:
    return any(part["sentences"] for part in body.get("facets", [body]))


class SharedReplay:
    """The replay of a world; `plan` is fixed when it is first asked for, and stored where no fault
    reaches.

    Args:
        names: what it has of its own.
        setup: says where it begins and ends.
        broker: has its topic.
    """

    def __init__(self, names: ReplayIdentity, setup: Setup, broker: Broker) -> None:
        self._names = names
        self._setup = setup
        self._broker = broker

    @cached_property
    def plan(self) -> ReplayPlan:
        """From where to where, as of the first look."""
        return ReplayPlan(
            begun="at the first look",
            request=self._names.request.facts(),
            made_with={},
            whole=not self._setup.skipped,
            topic=self._names.request.topic,
            topic_id="",
            output_topic=self._names.output_topic,
            ranges={
                str(partition): self._range(partition)
                for partition in range(self._setup.partitions)
            },
        )

    def _range(self, partition: int) -> Range:
        end = max(0, self._broker.log(self._names.request.topic, partition).end - self._setup.short)
        return Range(min(self._setup.skipped, end), end, 0)

    @property
    def ranges(self) -> dict[int, Range]:
        """By partition."""
        return self.plan.by_partition

    # -- what it publishes -------------------------------------------------------------------------

    def at_once(self, changes: Iterable[Change]) -> list[Change]:
        """Of these changes, those that are published when they happen; beyond the ends an endless
        worker does that.
        """
        if self._setup.replay in ("every", "coalesced"):
            return list(changes)
        return [
            change for change in changes if change.sequence >= self.ranges[change.partition].end
        ]

    def at_end(self, changes: Iterable[Change]) -> list[Change]:
        """Each entity's last one below the ends, if its set is not empty, as from nothing."""
        if self._setup.replay != "final":
            return []
        last = {
            change.entity_id: change
            for change in changes
            if change.sequence < self.ranges[change.partition].end
        }
        return [
            _from_nothing(change)
            for change in last.values()
            if change.body and _has_sentences(change.body)
        ]

    # -- its processes -----------------------------------------------------------------------------

    def bounds(self, process: Caller) -> RunBounds:
        """The bounds of a process's worker."""
        return Replay(self._names, clients=Clients(process), clock=self._broker.clock).keep_to(
            self.plan
        )
