"""The assignment of partitions to the members of a group, which its leader makes.

It is balanced, and each partition goes to a member that has its rows, if that one has room. A
member that joins again after its session has nothing assigned, so it announces the partitions that
it held last as standbys.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from faust.assignor import partition_assignor
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.copartitioned_assignor import CopartitionedAssignor
from faust.assignor.partition_assignor import PartitionAssignor

from worker.storage.databases import read_held


class HolderAssignor(CopartitionedAssignor):
    """Gives a partition to its owner, else to a member that has its rows, else to any.

    Faust would move any surplus partition to any member with room.
    """

    def get_assignment(self) -> Any:
        """The active and standby partitions by member."""
        members = self._client_assignments
        wanted = {  # by members that have room
            partition
            for member in members.values()
            if len(member.actives) < self.max_capacity
            for partition in member.standbys
        }
        preferred = sorted(
            (_rank(member, partition, wanted), partition, name)
            for name, member in members.items()
            for partition in range(self.num_partitions)
        )
        owners: dict[int, str] = {}
        counts: Counter[str] = Counter()
        for capacity in (self.min_capacity, self.max_capacity):
            for _, partition, name in preferred:
                if partition not in owners and counts[name] < capacity:
                    owners[partition] = name
                    counts[name] += 1
        for name, member in members.items():
            member.actives = {partition for partition, owner in owners.items() if owner == name}
            member.validate()  # an active partition is no standby
            member.unassign_extras(self.max_capacity, self.replicas)
        self._assign(active=False)
        return members


def _rank(member: Any, partition: int, wanted: set[int]) -> int:
    """The order in which a partition is given to members: the least first."""
    if partition in member.actives:
        return int(partition in wanted)
    return 2 if partition in member.standbys else 3


partition_assignor.CopartitionedAssignor = HolderAssignor


class StaticAssignor(PartitionAssignor):
    """Accepts an assignment for this member's former web address, and announces the new one.

    A worker that restarts within its session gets its former assignment, with its former address.
    Faust would take that for an internal error, and wait forever. The former assignment may also
    be that of a group whose input topic was missing: then nobody has a partition.
    """

    _assignment: ClientAssignment

    def metadata(self, topics: set[str]) -> Any:
        """The announcement of this member as it joins; without a partition, those whose rows it
        has.
        """
        if not self._assignment.actives:
            held = read_held(Path(self.app.conf.datadir), self.app.conf.topic_partitions)
            self._assignment = ClientAssignment(actives={}, standbys=dict.fromkeys(topics, held))
        return super().metadata(topics)

    def on_assignment(self, assignment: Any) -> None:
        """Accept it. With a new address the member joins again, so that the others get it."""
        described = ClientMetadata.loads(self._decompress(assignment.user_data))
        moved = described.url != str(self._url)
        if moved:
            described.url = str(self._url)
            assignment.user_data = self._compress(described.dumps())
        super().on_assignment(assignment)
        owned = described.external_topic_distribution.values()
        self.app.consumer.group_assigned(any(any(topics.values()) for topics in owned))
        if moved:
            self.app.consumer.join_again()
