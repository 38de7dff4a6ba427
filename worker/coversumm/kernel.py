"""The inner loops of a step: compiled where there was a C compiler (`compiled.c`), else in NumPy.
What they return is the same.

A step works on a handful of vectors, for which NumPy's calls cost more than their arithmetic.
Products of fixed-point coordinates are exact in float64 in whatever order they are added
(docs/algorithm.md, Lemma 1); what is not exact, `drift`, is used with a slack that holds for every
order.
"""

from worker.coversumm.portable import MICRO, Measured

try:
    from worker.coversumm.compiled import add, distances, drift, nearest, products

    IS_COMPILED = True
except ImportError:
    from worker.coversumm.portable import add, distances, drift, nearest, products

    IS_COMPILED = False
__all__ = ["IS_COMPILED", "MICRO", "Measured", "add", "distances", "drift", "nearest", "products"]
