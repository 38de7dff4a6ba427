"""`invariants.check` finds what is broken, and says which invariant it was."""

from __future__ import annotations

import numpy as np
import pytest

from tests.coversumm.index.sgtree.invariants import check
from tests.coversumm.index.sgtree.truth import planted, random_live
from worker.coversumm.index.sgtree import SGTree
from worker.coversumm.index.sgtree_nodes import UP


def an_inner_node(tree: SGTree) -> int:
    return next(
        n
        for n in tree.nodes.of_vector.values()
        if len(tree.nodes.children[n]) > 1 and n != tree.nodes.root
    )


def break_level(tree: SGTree) -> None:
    tree.nodes.level.rows[an_inner_node(tree)] = tree.nodes.level.rows[tree.nodes.root]


def break_covering(tree: SGTree) -> None:
    tree.nodes.level.rows[tree.nodes.children[an_inner_node(tree)][0]] -= 1


def break_separation(tree: SGTree) -> None:
    children = tree.nodes.children[tree.nodes.root]
    tree.nodes.level.rows[
        next(
            c
            for c in children
            if tree.nodes.level.rows[c] + 1 < tree.nodes.level.rows[tree.nodes.root]
        )
    ] += 1


def break_siblings(tree: SGTree) -> None:
    """A grandchild near its parent becomes its sibling."""
    root = tree.nodes.root
    for node in tree.nodes.of_vector.values():
        parent = tree.nodes.parent.rows[node]
        if parent not in (-1, root):
            squared = tree.nodes.squared_distances(np.array([node]), root)
            if (
                tree.nodes.level_of_child(squared)[0] == tree.nodes.level.rows[parent]
                and tree.nodes.parent.rows[parent] == root
            ):
                tree.nodes.children[parent].remove(node)
                tree.nodes.attach(node, root, int(tree.nodes.level.rows[parent]))
                return


def break_reach(tree: SGTree) -> None:
    node = an_inner_node(tree)
    tree.nodes.reach.rows[node] = np.nextafter(tree.nodes.reach.rows[node] / UP / UP, 0)


def break_reach_of_a_leaf(tree: SGTree) -> None:
    tree.nodes.reach.rows[
        next(node for node in tree.nodes.of_vector.values() if not tree.nodes.children[node])
    ] = 1.0


def break_parent(tree: SGTree) -> None:
    tree.nodes.parent.rows[tree.nodes.children[an_inner_node(tree)][0]] = tree.nodes.root


def break_cycle(tree: SGTree) -> None:
    tree.nodes.children[an_inner_node(tree)].append(tree.nodes.root)


def lose_a_node(tree: SGTree) -> None:
    tree.nodes.children[an_inner_node(tree)].pop()


def break_norm(tree: SGTree) -> None:
    tree.nodes.squared_norms.rows[an_inner_node(tree)] += 1


def break_count(tree: SGTree) -> None:
    tree.sentences.counts.rows[an_inner_node(tree)] += 1


def break_sentence(tree: SGTree) -> None:
    tree.sentences.node_of[b"nobody"] = tree.nodes.root


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (break_level, "nesting: a child's level"),
        (break_covering, "covering"),
        (break_separation, "separation: a child"),
        (break_siblings, "separation: siblings"),
        (break_reach, "reach: a descendant"),
        (break_reach_of_a_leaf, "reach: of a leaf"),
        (break_parent, "nesting: a child knows"),
        (break_cycle, "tree: a cycle"),
        (lose_a_node, "tree: not the nodes"),
        (break_norm, "norms"),
        (break_count, "sentences: a count"),
        (break_sentence, "sentences: a sentence's node"),
    ],
)
def test_check_names_what_is_broken(damage: object, says: str) -> None:
    tree = planted(random_live(4, 300, 2, 32767))
    damage(tree)  # type: ignore[operator]
    with pytest.raises(AssertionError, match=says):
        check(tree)
