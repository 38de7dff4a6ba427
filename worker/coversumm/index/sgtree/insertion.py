"""Insertion into an SG tree: of one leaf, or of many nodes at once, each with the subtree that hangs below it.

Both go from a node to the nearest of its children that covers what is inserted and is nearer than the node itself.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.index import TILE
from worker.coversumm.index.sgtree.nodes import UP, Floats, Nodes, Numbers

BATCH = 4096  # nodes inserted together: enough to fill the products, few enough to hold as float64
CENTERS = 256  # of these, how many may become children of one node at a time


def insert_leaf(nodes: Nodes, leaf: int) -> None:
    """Insert a node without children."""
    if nodes.root < 0:
        nodes.root = leaf
        return
    at, squared = nodes.root, float(nodes.squared_distances(np.array([nodes.root]), leaf)[0])
    while True:
        nodes.reach.rows[at] = max(nodes.reach.rows[at], squared**0.5 * UP)
        child, nearer = _nearest_covering_child(nodes, at, leaf)
        if not nearer < squared:
            return nodes.attach(leaf, at, int(nodes.level_of_child(np.array([squared]))[0]))
        at, squared = child, nearer


def _nearest_covering_child(nodes: Nodes, parent: int, node: int) -> tuple[int, float]:
    """The nearest of a node's children that cover another node, and its squared distance; infinite without any."""
    if not nodes.children[parent]:
        return -1, inf
    children = np.frombuffer(nodes.children[parent], np.int32)
    squared = nodes.squared_distances(children, node)
    squared[squared > nodes.squared_radii[nodes.level.rows[children]]] = inf
    best = squared.argmin()
    return int(children[best]), float(squared[best])


def insert_subtrees(nodes: Nodes, items: Numbers) -> None:
    """Insert nodes that are not attached, each with all that hangs below it; into an empty tree leaves alone."""
    if nodes.root < 0 and len(items):
        nodes.root, items = int(items[0]), items[1:]
    stack = [(nodes.root, items[at : at + BATCH]) for at in range(0, len(items), BATCH)]
    while stack:
        at, items = stack.pop()
        routing = _Routing(nodes, at, items)
        routing.route()
        stack += routing.onward


class _Routing:
    """Items on their way down that have come to one node of the tree, `at`; all of them are routed together.

    An item with children must hang above them: farther than `clearance`, a squared radius, from its parent. Where it
    cannot, its children are taken off and inserted on their own.
    """

    def __init__(self, nodes: Nodes, at: int, items: Numbers) -> None:
        self.nodes = nodes
        self.at = at
        self.items = items
        self.x = nodes.vectors.rows[items].astype(np.float64)
        self.nearest = nodes.squared_distances(items, at)  # squared distance to the owner
        self.owner = np.full(len(items), at, np.int32)  # the node it goes to, so far; -1: it has a place
        self.level = nodes.level_of_child(self.nearest)  # its level as a child of `at`
        self.clearance = np.full(len(items), -1.0)
        for row, item in enumerate(items.tolist()):
            if nodes.children[item]:
                highest = max([nodes.level.rows[child] for child in nodes.children[item]])
                self.clearance[row] = nodes.squared_radii[highest + 1]
        self.blocked = self.nearest <= self.clearance
        self.onward: list[tuple[int, Numbers]] = []  # where to go next, and who

    def route(self) -> None:
        """Each item becomes a child of `at`, or goes on to one."""
        nodes, at = self.nodes, self.at
        farthest = np.sqrt(self.nearest) * UP + nodes.reach.rows[self.items]
        nodes.reach.rows[at] = max(nodes.reach.rows[at], float(farthest.max()) * UP)
        rows = np.arange(len(self.items))
        for row in rows[self.blocked].tolist():
            self._dissolve(row)
        rows = np.flatnonzero(self.owner == at)
        self._offer(rows, np.array(nodes.children[at], np.int32))
        while len(rows := rows[self.owner[rows] == at]):
            head, rows = rows[:CENTERS], rows[CENTERS:]
            self._offer(rows, self._attach(head))
        self._send_on()

    def _dissolve(self, row: int) -> None:
        """An item that cannot keep its children here comes again without them, and they from the root."""
        self.owner[row] = -1
        self.onward.append((self.at, self.items[row : row + 1]))
        self.onward.append((self.nodes.root, self.nodes.take_children(int(self.items[row]))))

    def _offer(self, rows: NDArray[np.int64], children: Numbers) -> None:
        """Let items go to the nearest of these children of `at` that covers them, if it is nearer than their owner."""
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
        """The same, given their squared distances (rows, children), which are overwritten."""
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
        """One after another becomes a child of `at`, unless one before it covers it; returns the new children."""
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
        if not len(rows):
            return
        rows = rows[self.owner[rows].argsort(kind="stable")]
        owners = self.owner[rows]
        cuts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        for part in np.split(rows, cuts):
            self.onward.append((int(self.owner[part[0]]), self.items[part]))
