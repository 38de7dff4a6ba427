"""The nodes of an SG tree as arrays, and the invariants of their places.

R(l) = base^(l-1), l = 0, 1, ... are the radii of the levels. Each distinct vector is one node. A
node of level l stands for itself at every level below too (so it is stored once); a child of level
l hangs below its parent's standing at level l + 1:

- nesting: a child's level is below its parent's;
- covering: d(parent, child) <= R(level of the child + 1);
- separation: d(parent, child) > R(level of the child), and two children of one parent with the same
  level l are more than R(l) apart.

So a child's level is fixed by its distance to the parent. All three compare squared distances,
which are integers that float64 holds exactly, with one table of squared radii: insertion and
deletion cannot disagree.
"""

from array import array
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import DuplicateSentence, UnknownSentence
from worker.coversumm.index import TILE
from worker.coversumm.matrix import GrowingArray

BASE = 1.3  # measured: docs/algorithm.md
UP = 1 + 2.0**-50  # a computed root, or a sum of two, times this is not below the true one
Numbers = NDArray[np.int32]  # of nodes
Floats = NDArray[np.float64]


class Nodes:
    """Nodes by number; the number of a released node is used again.

    `reach` is the paper's q.max: an upper bound of the distance from a node to everything below it,
    0 for a leaf. Deletion does not lower it; too large a bound costs visits, never a result.
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
        """Approximate bytes of the arrays and of Python's objects for nodes and vectors."""
        vector: int = 2 * self.vectors.rows.shape[1] + 33 + 104 + 40
        arrays: int = sum([values.nbytes for values in self._arrays()])
        return arrays + 88 * len(self.children) + vector * len(self)

    def _arrays(self) -> tuple[GrowingArray[Any], ...]:
        return self.vectors, self.squared_norms, self.reach, self.level, self.parent

    # ---- their number

    def add(self, vectors: NDArray[np.int16]) -> Numbers:
        """Nodes for new vectors (m, D), distinct; they are not attached to the tree yet."""
        reused = [self.released.pop() for _ in range(min(len(vectors), len(self.released)))]
        start, more = len(self.children), len(vectors) - len(reused)
        # rows for many nodes to come: five arrays are seldom extended
        if start + more > len(self.level):
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
        self.of_vector.update(
            zip([vector.tobytes() for vector in vectors], added.tolist(), strict=True)
        )
        self.max_squared_norm = max(self.max_squared_norm, float(squared_norms.max()))
        return added

    def release(self, node: int) -> None:
        """Delete a node without parent and children."""
        del self.of_vector[self.vectors.rows[node].tobytes()]
        self.released.append(node)

    # ---- their places

    def attach(self, node: int, parent: int, level: int) -> None:
        """Make a node a child. Only the root's level may be too low before."""
        self.children[parent].append(node)
        self.parent.rows[node] = parent
        self.level.rows[node] = level
        if self.level.rows[parent] <= level:
            self.level.rows[parent] = level + 1

    def detach(self, node: int) -> None:
        """Detach a node, with its subtree, from its parent."""
        parent = int(self.parent.rows[node])
        self.children[parent].remove(node)
        if not self.children[parent]:
            self.reach.rows[parent] = 0.0

    def take_children(self, node: int) -> Numbers:
        """Detach all children, each with its subtree, and return them."""
        children = np.array(self.children[node], np.int32)
        self.children[node] = array("i")
        self.reach.rows[node] = 0.0
        return children

    def children_of(self, nodes: Numbers) -> Numbers:
        """All children of some nodes."""
        return np.frombuffer(b"".join([self.children[node] for node in nodes.tolist()]), np.int32)

    def level_of_child(self, squared_distance: Floats) -> Numbers:
        """The level l of a child at this distance from its parent: R(l) < d <= R(l + 1)."""
        return (self.squared_radii.searchsorted(squared_distance) - 1).astype(np.int32)

    def dots(self, nodes: Numbers, vector: Floats) -> Floats:
        """Products (m,) of nodes with a vector of integers, exact."""
        vectors, tiles = self.vectors.rows, range(0, max(len(nodes), 1), TILE)
        return np.concatenate([vectors[nodes[at : at + TILE]] @ vector for at in tiles])

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


class Sentences:
    """The sentence ids of each node."""

    def __init__(self) -> None:
        self.node_of: dict[bytes, int] = {}  # by id
        self.counts = GrowingArray(np.float64)  # by node
        self._ids: list[bytes | set[bytes]] = []  # by node; a set of two or more

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes in memory."""
        return self.counts.nbytes + 8 * len(self._ids) + 210 * len(self.node_of)

    def refuse_duplicates(self, ids: Sequence[bytes]) -> None:
        """Raise DuplicateSentence if an id is live, or given twice."""
        seen: set[bytes] = set()
        for id_ in ids:
            if id_ in self.node_of or id_ in seen:
                raise DuplicateSentence(f"sentence {id_!r} is live already")
            seen.add(id_)

    def make_room(self, nodes: int) -> None:
        """Make room for this many nodes."""
        more = nodes - len(self._ids)
        self._ids += [b""] * more
        self.counts.append(np.zeros(more))

    def add(self, node: int, id_: bytes) -> None:
        """Add a sentence, which is not live, to a node."""
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
        """Remove a sentence and return its node. Raises UnknownSentence if it is not live."""
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


BATCH = 4096  # nodes inserted together: enough to fill the products, few enough to hold as float64
CENTERS = 256  # of these, how many may become children of one node at a time


def insert_subtrees(nodes: Nodes, items: Numbers) -> None:
    """Insert unattached nodes with their subtrees; into an empty tree only leaves."""
    if nodes.root < 0 and len(items):
        nodes.root, items = int(items[0]), items[1:]
    stack = [(nodes.root, items[at : at + BATCH]) for at in range(0, len(items), BATCH)]
    while stack:
        at, items = stack.pop()
        routing = _Routing(nodes, at, items)
        routing.route()
        stack += routing.onward


class _Routing:
    """Routes items that have come down to one node of the tree, `at`.

    An item with children must be farther than `clearance`, a squared radius, from its parent. Where
    it cannot be, its children are detached and inserted on their own.
    """

    def __init__(self, nodes: Nodes, at: int, items: Numbers) -> None:
        self.nodes = nodes
        self.at = at
        self.items = items
        self.x = nodes.vectors.rows[items].astype(np.float64)
        self.nearest = nodes.squared_distances(items, at)  # squared distance to the owner
        # the node it goes to, so far; -1: it has a place
        self.owner = np.full(len(items), at, np.int32)
        self.level = nodes.level_of_child(self.nearest)  # its level as a child of `at`
        self.clearance = np.full(len(items), -1.0)
        for row, item in enumerate(items.tolist()):
            if nodes.children[item]:
                highest = max([nodes.level.rows[child] for child in nodes.children[item]])
                self.clearance[row] = nodes.squared_radii[highest + 1]
        self.blocked = self.nearest <= self.clearance
        self.onward: list[tuple[int, Numbers]] = []  # the next node, and its items

    def route(self) -> None:
        """Make each item a child of `at`, or pass it on to one."""
        nodes, at = self.nodes, self.at
        farthest = np.sqrt(self.nearest) * UP + nodes.reach.rows[self.items]
        nodes.reach.rows[at] = max(nodes.reach.rows[at], float(farthest.max()) * UP)
        for row in np.flatnonzero(self.blocked).tolist():
            self._dissolve(row)
        rows = np.flatnonzero(self.owner == at)
        self._offer(rows, np.array(nodes.children[at], np.int32))
        while len(rows := rows[self.owner[rows] == at]):
            head, rows = rows[:CENTERS], rows[CENTERS:]
            self._offer(rows, self._attach(head))
        self._send_on()

    def _dissolve(self, row: int) -> None:
        """Detach an item's children and route them again from the root, the item from here."""
        self.owner[row] = -1
        self.onward.append((self.at, self.items[row : row + 1]))
        self.onward.append((self.nodes.root, self.nodes.take_children(int(self.items[row]))))

    def _offer(self, rows: NDArray[np.int64], children: Numbers) -> None:
        """Give items to the nearest child of `at` that covers them, if nearer than their owner."""
        nodes = self.nodes
        for start in range(0, len(children), TILE):
            block = children[start : start + TILE]
            y = nodes.vectors.rows[block].astype(np.float64).T * -2.0
            for first in range(0, len(rows), TILE):
                part = rows[first : first + TILE]
                squared = self.x[part] @ y
                squared += nodes.squared_norms.rows[self.items[part], None]
                squared += nodes.squared_norms.rows[block]
                self._choose(part, block, squared)

    def _choose(self, rows: NDArray[np.int64], children: Numbers, squared: Floats) -> None:
        """`_offer` with squared distances (rows, children), which are overwritten."""
        levels = self.nodes.level.rows[children]
        covered = self.nodes.squared_radii[levels]
        clearance = self.clearance[rows]
        if (clearance >= 0.0).any():
            near = (levels == self.level[rows, None]) & (squared <= covered)
            self.blocked[rows] |= near.any(axis=1)  # unless it finds an owner
            np.putmask(squared, squared <= clearance[:, None], inf)
        np.putmask(squared, squared > covered, inf)
        choice = squared.argmin(axis=1)
        nearest = squared[np.arange(len(rows)), choice]
        better = nearest < self.nearest[rows]
        self.nearest[rows[better]] = nearest[better]
        self.owner[rows[better]] = children[choice[better]]

    def _attach(self, rows: NDArray[np.int64]) -> Numbers:
        """Make items children of `at` unless an earlier one covers them; returns these."""
        nodes = self.nodes
        items, x = self.items[rows], self.x[rows]
        apart = x @ (x.T * -2.0)
        apart += nodes.squared_norms.rows[items, None]
        apart += nodes.squared_norms.rows[items]
        attached: list[int] = []
        for i, row in enumerate(rows.tolist()):
            if self.owner[row] != self.at:
                continue
            if self.blocked[row]:
                self._dissolve(row)
                continue
            node = int(items[i])
            nodes.attach(node, self.at, int(self.level[row]))
            self.owner[row] = -1
            attached.append(node)
            self._choose(rows[i + 1 :], items[i : i + 1], apart[i + 1 :, i : i + 1])
        return np.array(attached, np.int32)

    def _send_on(self) -> None:
        rows = np.flatnonzero(self.owner >= 0)
        rows = rows[self.owner[rows].argsort(kind="stable")]
        owners, starts = np.unique(self.owner[rows], return_index=True)
        for owner, part in zip(owners.tolist(), np.split(rows, starts[1:]), strict=False):
            self.onward.append((owner, self.items[part]))


def delete_node(nodes: Nodes, node: int) -> None:
    """Remove a node from the tree and release it."""
    orphans = nodes.take_children(node)
    if node == nodes.root:
        orphans = _replace_root(nodes, orphans)
    else:
        nodes.detach(node)
    nodes.release(node)
    insert_subtrees(nodes, orphans)


def _replace_root(nodes: Nodes, children: Numbers) -> Numbers:
    """Make the child of the highest level nearest to the old root the root; return the others."""
    if not len(children):
        nodes.root = -1
        return children
    levels = nodes.level.rows[children]
    highest = children[levels == levels.max()]
    nearest = nodes.squared_distances(highest, nodes.root).argmin()
    nodes.root = int(highest[nearest])
    nodes.parent.rows[nodes.root] = -1
    return np.delete(children, np.flatnonzero(children == nodes.root))
