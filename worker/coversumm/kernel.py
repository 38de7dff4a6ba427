"""The inner loops of a step, compiled (`compiled.c`) or in NumPy (`portable`), with the same
results.

A step works on a handful of vectors, for which NumPy's calls cost more than their arithmetic.
Products of fixed-point coordinates are exact in float64 in any order of addition
(docs/algorithm.md, Lemma 1). `drift` is not exact, and its slack holds for every order.
"""

from worker.coversumm.portable import MICRO, Joined, Measured

try:
    from worker.coversumm.compiled import add, distances, drift, join, nearest, products

    IS_COMPILED = True
except ImportError:
    from worker.coversumm.portable import add, distances, drift, join, nearest, products

    IS_COMPILED = False
__all__ = [
    "IS_COMPILED",
    "MICRO",
    "Joined",
    "Measured",
    "add",
    "distances",
    "drift",
    "join",
    "nearest",
    "products",
]
