"""The SG tree (paper, section 2.2; Stable Greedy tree, Zaheer et al. 2019), and the index that builds it lazily.

nodes             the nodes as arrays, their levels, and the three invariants: nesting, covering, separation
sentences         the ids at each node: copies of a vector share one
insertion         one vector, many, or whole subtrees
deletion          a node goes, its children's subtrees are inserted again
search            the traversal that every query is, and what kNN and range queries keep of it
reservoir_search  the paper's Algorithm 2
tree              SGTree: all of it
index             SGTreeIndex: the index of an entity

Insertion goes from a node to the nearest of its children that cover the new vector (d <= R(level of the child)) and
are nearer than the node itself, whatever their level: any such child keeps the invariants, and the nearest makes the
tightest subtrees. Without any, the vector becomes a child: one of its own level within R(level) would have covered it.

Queries process a frontier, nearest first, many nodes' children in one matrix product. They prune a subtree only if a
lower bound of d(mu, c) - c.max is above an upper bound of the radius; what is inside is decided by exact keys.

Depth is bounded by the number of levels, and nothing recurses.

Why BASE is 1.3 (10,000 vectors inserted as one batch, one thread, seconds; share visited by a kNN with k = 20):

    base                   1.15           1.3           1.5             2             3
    uniform, 100     0.25  100%    0.24  100%    0.19  100%    0.25  100%    0.47  100%
    LDA, 100         0.28  100%    0.25  100%    0.24  100%    0.35  100%    0.50  100%
    clusters, 384    0.24  100%    0.22  100%    0.48  100%    0.27  100%    1.00  100%
    clusters, 8      0.40   12%    0.42   13%    0.36   14%    0.34   13%    0.24   19%
    uniform, 3       0.49   12%    0.44   10%    0.47   11%    0.47   12%    0.51   17%

A large base makes one family of nearly everything where distances are alike, as they are in many dimensions, and
prunes less in few. In many dimensions no base prunes: a centroid is nearer to every vector than the vectors are to one
another, so every ball around a node holds it. There the tree is a scan in another order.
"""

from worker.coversumm.index.sgtree.index import SGTreeIndex
from worker.coversumm.index.sgtree.tree import Found, SGTree

__all__ = ["Found", "SGTree", "SGTreeIndex"]
