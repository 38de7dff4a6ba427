"""Faust's assignor, for a static member that comes back under another web address."""

from typing import Any

from faust.assignor.client_assignment import ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor


class StaticAssignor(PartitionAssignor):
    """Takes an assignment that was made for this member's former web address, and lets the group hear of the new one.

    A worker that is back within its session gets the assignment of before, made when its address was another one. Faust takes
    that for an error inside, and would wait for ever.
    """

    def on_assignment(self, assignment: Any) -> None:
        """Take it. At another address the group is joined again: now with another description, which the others then get."""
        described = ClientMetadata.loads(self._decompress(assignment.user_data))
        moved = described.url != str(self._url)
        if moved:
            described.url = str(self._url)
            assignment.user_data = self._compress(described.dumps())
        super().on_assignment(assignment)
        if moved:
            self.app.consumer.join_again()
