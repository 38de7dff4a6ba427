"""What holds of an SG tree after every change."""

from __future__ import annotations

import numpy as np

from worker.coversumm.index.sgtree import SGTree
from worker.coversumm.index.sgtree_nodes import Nodes, Numbers


def check(tree: SGTree) -> None:
    """Raise AssertionError naming the first invariant that does not hold."""
    nodes = tree.nodes
    live = _reachable(nodes)
    _require(len(live) == len(set(live.tolist())), "tree: a node is reached twice")
    _require(
        sorted(live.tolist()) == sorted(nodes.of_vector.values()),
        "tree: not the nodes of the vectors",
    )
    _require(
        sorted([*live.tolist(), *nodes.released]) == list(range(len(nodes.children))),
        "tree: a node is lost",
    )
    _check_vectors(nodes, live)
    _check_sentences(tree, live)
    for node in live.tolist():
        children = np.array(nodes.children[node], np.int32)
        if len(children):
            _check_family(nodes, node, children)
    _check_reach(nodes, live)


def _reachable(nodes: Nodes) -> Numbers:
    level = np.array([nodes.root] if nodes.root >= 0 else [], np.int32)
    _require(bool((nodes.parent.rows[level] == -1).all()), "tree: the root has a parent")
    levels = [level]
    while len(level):
        level = nodes.children_of(level)
        levels.append(level)
        _require(sum(map(len, levels)) <= len(nodes.children), "tree: a cycle")
    return np.concatenate(levels)


def _check_vectors(nodes: Nodes, live: Numbers) -> None:
    for node in live.tolist():
        _require(
            nodes.of_vector.get(nodes.vectors.rows[node].tobytes()) == node,
            "vectors: a vector's node",
        )
    x = nodes.vectors.rows[live].astype(np.float64)
    _require(bool((np.einsum("ij,ij->i", x, x) == nodes.squared_norms.rows[live]).all()), "norms")
    _require(
        bool((nodes.squared_norms.rows[live] <= nodes.max_squared_norm).all()), "norms: the largest"
    )


def _check_sentences(tree: SGTree, live: Numbers) -> None:
    sentences, ids = tree.sentences, dict[bytes, int]()
    for node in live.tolist():
        copies = sentences.at(node)
        _require(len(copies) == sentences.counts.rows[node] >= 1, "sentences: a count")
        _require(
            not isinstance(sentences._ids[node], set) or len(copies) > 1, "sentences: a set of one"
        )
        ids.update(dict.fromkeys(copies, node))
    _require(ids == sentences.node_of, "sentences: a sentence's node")


def _check_family(nodes: Nodes, node: int, children: Numbers) -> None:
    levels = nodes.level.rows[children]
    radii = nodes.squared_radii
    squared = nodes.squared_distances(children, node)
    _require(
        bool((nodes.parent.rows[children] == node).all()), "nesting: a child knows another parent"
    )
    _require(
        bool((levels < nodes.level.rows[node]).all() and (levels >= 0).all()),
        "nesting: a child's level",
    )
    _require(
        bool((squared <= radii[levels + 1]).all()), "covering: a child is too far from its parent"
    )
    _require(bool((squared > radii[levels]).all()), "separation: a child is too near to its parent")
    for level in set(levels.tolist()):
        siblings = children[levels == level]
        x = nodes.vectors.rows[siblings].astype(np.float64)
        norms = nodes.squared_norms.rows[siblings]
        for at in range(len(siblings) - 1):
            apart = norms[at + 1 :] + norms[at] - 2.0 * (x[at + 1 :] @ x[at])
            _require(bool((apart > radii[level]).all()), "separation: siblings are too near")


def _check_reach(nodes: Nodes, live: Numbers) -> None:
    leaves = [not nodes.children[node] for node in live.tolist()]
    reach, parent, vectors = nodes.reach.rows, nodes.parent.rows, nodes.vectors.rows
    _require(bool(((reach[live] == 0.0) == leaves).all()), "reach: of a leaf")
    below = above = live[live != nodes.root]
    while len(below):
        above = parent[above]
        apart = vectors[below].astype(np.float64) - vectors[above]
        distances = np.sqrt(np.einsum("ij,ij->i", apart, apart))
        _require(bool((distances <= reach[above]).all()), "reach: a descendant is farther")
        below, above = below[above != nodes.root], above[above != nodes.root]


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)
