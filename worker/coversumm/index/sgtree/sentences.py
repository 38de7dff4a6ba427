"""The sentences at each node of a tree: ids of the copies of its vector."""

from collections.abc import Sequence

import numpy as np

from worker.coversumm.errors import DuplicateSentence, UnknownSentence
from worker.coversumm.matrix import GrowingArray


class Sentences:
    """Ids by node."""

    def __init__(self) -> None:
        self.node_of: dict[bytes, int] = {}  # by id
        self.counts = GrowingArray(np.float64)  # by node
        self._ids: list[bytes | set[bytes]] = []  # by node; a set of two or more

    @property
    def memory_bytes(self) -> int:
        """Roughly what it holds."""
        return self.counts.nbytes + 8 * len(self._ids) + 210 * len(self.node_of)

    def refuse_duplicates(self, ids: Sequence[bytes]) -> None:
        """Raise DuplicateSentence if one of these is live, or among them twice."""
        seen: set[bytes] = set()
        for id_ in ids:
            if id_ in self.node_of or id_ in seen:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            seen.add(id_)

    def make_room(self, nodes: int) -> None:
        """Take sentences at this many nodes."""
        more = nodes - len(self._ids)
        self._ids += [b""] * more
        self.counts.append(np.zeros(more))

    def add(self, node: int, id_: bytes) -> None:
        """A sentence that is not live, to a node."""
        ids = self._ids[node]
        if self.counts.rows[node] == 0:
            self._ids[node] = id_
        elif isinstance(ids, set):
            ids.add(id_)
        else:
            self._ids[node] = {ids, id_}
        self.counts.rows[node] += 1
        self.node_of[id_] = node

    def remove(self, id_: bytes) -> int:
        """Returns the node that had it. Raises UnknownSentence if it is not live."""
        node = self.node_of.pop(id_, None)
        if node is None:
            raise UnknownSentence(f"sentence {id_!r} is not live")
        self.counts.rows[node] -= 1
        ids = self._ids[node]
        if isinstance(ids, set):
            ids.remove(id_)
            if len(ids) == 1:
                self._ids[node] = ids.pop()
        else:
            self._ids[node] = b""
        return node

    def at(self, node: int) -> Sequence[bytes]:
        """The ids at a node that has any, in no order."""
        ids = self._ids[node]
        return list(ids) if isinstance(ids, set) else (ids,)
