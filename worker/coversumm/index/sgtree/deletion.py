"""Deletion from an SG tree: the subtrees below the node are inserted again, whole where their level allows."""

from worker.coversumm.index.sgtree.insertion import insert_subtrees
from worker.coversumm.index.sgtree.nodes import Nodes, Numbers


def delete_node(nodes: Nodes, node: int) -> None:
    """Take a node out of the tree and release it."""
    orphans = nodes.take_children(node)
    if node == nodes.root:
        orphans = _replace_root(nodes, orphans)
    else:
        nodes.detach(node)
    nodes.release(node)
    insert_subtrees(nodes, orphans)


def _replace_root(nodes: Nodes, children: Numbers) -> Numbers:
    """The child of the highest level, of those the nearest to the old root, is the new one; returns the others."""
    if not len(children):
        nodes.root = -1
        return children
    levels = nodes.level.rows[children]
    highest = children[levels == levels.max()]
    nearest = nodes.squared_distances(highest, nodes.root).argmin()
    nodes.root = int(highest[nearest])
    nodes.parent.rows[nodes.root] = -1
    others: Numbers = children[children != nodes.root]
    return others
