"""The nodes of an SG tree as arrays, and the invariants of their places.

R(l) = base^(l-1), l = 0, 1, ... are the radii of the levels. Each distinct vector is one node. A node of level l stands
for itself at every level below too (so it is stored once); a child of level l hangs below its parent's standing at
level l + 1:

- nesting: a child's level is below its parent's;
- covering: d(parent, child) <= R(level of the child + 1);
- separation: d(parent, child) > R(level of the child), and two children of one parent with the same level l are more
  than R(l) apart.

So a child's level is fixed by its distance to the parent. All three compare squared distances, which are integers
that float64 holds exactly, with one table of squared radii: insertion and deletion cannot disagree.
"""

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.index import TILE
from worker.coversumm.matrix import GrowingArray

BASE = 1.3
UP = 1 + 2.0**-50  # a computed root, or a sum of two, times this is not below the true one

Numbers = NDArray[np.int32]  # of nodes
Floats = NDArray[np.float64]


class Nodes:
    """Nodes by number; the number of one that was released is used again.

    `reach` is the paper's q.max: an upper bound of the distance of a node to everything below it, 0 for a leaf. Deletion
    leaves it as it is, too large perhaps: that costs visits, never a result.
    """

    def __init__(self, dimension: int, base: float) -> None:
        """Raises ValueError for a base that is not between 1.01 and 16."""
        if not 1.01 <= base <= 16:
            raise ValueError(f"base must be between 1.01 and 16, not {base}")
        self.squared_radii = _squared_radii(dimension, base)
        self.root = -1  # -1: the tree is empty
        self.vectors = GrowingArray(np.int16, dimension)
        self.squared_norms = GrowingArray(np.float64)
        self.reach = GrowingArray(np.float64)
        self.level = GrowingArray(np.int32)
        self.parent = GrowingArray(np.int32)  # -1: the root's, or that of a node not attached yet
        self.children: list[array[int]] = []
        self.of_vector: dict[bytes, int] = {}  # by the vector's bytes
        self.max_squared_norm = 0.0  # of all vectors ever added
        self.released: list[int] = []

    def __len__(self) -> int:
        return len(self.of_vector)

    @property
    def memory_bytes(self) -> int:
        """Roughly what it holds: arrays, and what Python needs around nodes and vectors."""
        vector: int = 2 * self.vectors.rows.shape[1] + 33 + 104 + 40
        arrays: int = sum([values.nbytes for values in self._arrays()])
        return arrays + 88 * len(self.children) + vector * len(self)

    def _arrays(self) -> tuple[GrowingArray[Any], ...]:
        return self.vectors, self.squared_norms, self.reach, self.level, self.parent

    # ---- their number

    def add(self, vectors: NDArray[np.int16]) -> Numbers:
        """Nodes for new vectors (m, D), distinct; they are not attached to the tree yet."""
        reused = self.released[len(self.released) - min(len(vectors), len(self.released)) :]
        del self.released[len(self.released) - len(reused) :]
        start, more = len(self.children), len(vectors) - len(reused)
        if start + more > len(self.level):  # rows for many nodes to come: five arrays are seldom extended
            for values in self._arrays():
                values.extend(start + more)
        self.children += [array("i") for _ in range(more)]
        added = np.array([*reused, *range(start, start + more)], np.int32)
        squared_norms = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        self.vectors.rows[added] = vectors
        self.squared_norms.rows[added] = squared_norms
        self.reach.rows[added] = 0.0
        self.level.rows[added] = 0
        self.parent.rows[added] = -1
        self.of_vector.update(zip([vector.tobytes() for vector in vectors], added.tolist(), strict=True))
        self.max_squared_norm = max(self.max_squared_norm, float(squared_norms.max()))
        return added

    def release(self, node: int) -> None:
        """Forget a node that nothing hangs below and that hangs below nothing."""
        del self.of_vector[self.vectors.rows[node].tobytes()]
        self.released.append(node)

    # ---- their places

    def attach(self, node: int, parent: int, level: int) -> None:
        """Make a node a child. Only the root's level may be too low: any other covers what comes to it."""
        self.children[parent].append(node)
        self.parent.rows[node] = parent
        self.level.rows[node] = level
        if self.level.rows[parent] <= level:
            self.level.rows[parent] = level + 1

    def detach(self, node: int) -> None:
        """Take a node, with all that hangs below it, off its parent."""
        parent = int(self.parent.rows[node])
        self.children[parent].remove(node)
        if not self.children[parent]:
            self.reach.rows[parent] = 0.0

    def take_children(self, node: int) -> Numbers:
        """Take the children off a node; returns them, each with all that hangs below it."""
        children = np.array(self.children[node], np.int32)
        self.children[node] = array("i")
        self.reach.rows[node] = 0.0
        return children

    def children_of(self, nodes: Numbers) -> Numbers:
        """All children of some nodes."""
        children = self.children
        return np.frombuffer(b"".join([children[node] for node in nodes.tolist()]), np.int32)

    def level_of_child(self, squared_distance: Floats) -> Numbers:
        """The level l of a child at this distance from its parent: R(l) < d <= R(l + 1)."""
        return (self.squared_radii.searchsorted(squared_distance) - 1).astype(np.int32)

    # ---- distances

    def dots(self, nodes: Numbers, vector: Floats) -> Floats:
        """Products (m,) of nodes with a vector of integers, exact."""
        vectors = self.vectors.rows
        if len(nodes) <= TILE:
            product: Floats = vectors[nodes] @ vector
            return product
        return np.concatenate([vectors[nodes[at : at + TILE]] @ vector for at in range(0, len(nodes), TILE)])

    def squared_distances(self, nodes: Numbers, other: int) -> Floats:
        """Squared distances (m,) of nodes to another, exact."""
        squared = self.dots(nodes, self.vectors.rows[other].astype(np.float64))
        squared *= -2.0
        squared += self.squared_norms.rows[nodes]
        squared += self.squared_norms.rows[other]
        return squared


def _squared_radii(dimension: int, base: float) -> Floats:
    """R(l)^2 up to the largest squared distance of int16 vectors; R(0) < 1 covers nothing."""
    squared = [1.0 / (base * base)]
    while squared[-1] < dimension * 65535.0**2:
        squared.append(base ** (2 * (len(squared) - 1)))
    return np.array(squared)
