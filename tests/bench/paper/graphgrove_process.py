"""The naive tree on the real graphgrove: `python3.8 graphgrove_process.py VECTORS.npy K SECONDS`
prints one JSON object.

Stands alone and runs on CPython 3.8. Each step inserts the next vector and asks for the k nearest
to the centroid of all so far; it ends early once SECONDS are used up. The tree starts from three
points that are no vectors, far enough apart that its root stays the root: once the library raises
its root it may miss neighbours, and it cannot start from one point. They are left out of the
answers, so it is asked for three more. Equal vectors are dropped by the library.
"""

import json
import os
import sys
import time

import numpy as np

FRAME = 3


def main(path, k, budget):
    """Measure; return what is printed."""
    import graphgrove
    from graphgrove.sgtree import NNS_L2

    vectors = np.ascontiguousarray(np.load(path), np.float32)
    half = 2.0 * float(np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1).max())) + 1
    frame = np.zeros((FRAME, vectors.shape[1]), np.float32)
    frame[:, 0] = 0.1234567 * half, 1.1234567 * half, -0.8765433 * half
    tree = NNS_L2.from_matrix(frame, use_multi_core=0)
    total = np.zeros(vectors.shape[1])
    inserts, searches, nearest = [], [], []
    started = time.perf_counter()
    for step in range(len(vectors)):
        total += vectors[step]
        query = (total / (step + 1)).astype(np.float32)[None]
        before = time.perf_counter()
        tree.insert(vectors[step : step + 1], np.array([step + FRAME]), use_multi_core=0)
        between = time.perf_counter()
        size = len(tree)
        found, _ = tree.kNearestNeighbours(query, k=min(k + FRAME, size), use_multi_core=1)
        after = time.perf_counter()
        inserts.append(between - before)
        searches.append(after - between)
        nearest = [int(size) - FRAME for size in found[0] if size >= FRAME][:k]
        if after - started > budget:
            break
    return {
        "graphgrove": graphgrove.__version__,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "steps": len(inserts),
        "insert_seconds": inserts,
        "knn_seconds": searches,
        "dropped": len(inserts) + FRAME - len(tree),
        "nearest": nearest,
    }


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its modules are of another Python
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library prints
    result = main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    json.dump(result, out)
    out.close()
