"""Fixed point: embeddings as int16, so that sums and keys are exact in any order of computation.

Sentences are ranked by the integer `key(x) = n*|x|^2 - 2*x.S`, S being the sum of the n live
vectors. Every partial sum of a key is an integer of at most 3*n*q, q being the largest |x|^2: below
2^53 float64 is exact in any order in which BLAS adds. Proof: docs/algorithm.md, Lemma 1.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


class CoreError(ValueError):
    """Base class of the core's errors."""


class VectorError(CoreError):
    """A vector has the wrong shape or type, is zero, or is not finite."""


class EntityFull(CoreError):
    """One more sentence is too many: float64 might not hold every key exactly (see `exact`)."""


class UnknownSentence(CoreError):
    """A sentence to remove is not live, or not with this vector."""


class DuplicateSentence(CoreError):
    """The id of a sentence to add is live already."""


SCALE = 32767
EXACT = 2**53


def exact(n: int, max_squared_norm: float) -> bool:
    """True if float64 computes every key of `n` sentences exactly."""
    return 3 * n * int(max_squared_norm) < EXACT


def max_sentences(dimension: int) -> int:
    """The largest n for which `exact` holds for any live sentences (2.8 million at 384 dimensions).

    Rounding moves a coordinate by at most a half (and a hair, which the added 1 covers), so a
    quantized vector is no longer than `SCALE + sqrt(dimension)/2`.
    """
    max_norm = SCALE + (math.isqrt(dimension) + 1) // 2 + 1
    return (EXACT - 1) // (3 * max_norm * max_norm)


def quantize(embeddings: ArrayLike) -> NDArray[np.int16]:
    """Embeddings (m, D) -> int16 (m, D): `rint(SCALE * v / |v|)` in float64, halves to even.

    Raises VectorError naming the first row that is zero or not finite.

    >>> quantize([[3.0, 4.0], [0.0, -2.0]]).tolist()
    [[19660, 26214], [0, -32767]]
    >>> quantize([[3.0, 4.0], [0.0, 0.0]])
    Traceback (most recent call last):
        ...
    worker.coversumm.fixed_point.VectorError: embedding 1 is zero
    """
    quantized, invalid = quantize_rows(embeddings)
    if invalid.any():
        row = int(invalid.argmax())
        finite = np.isfinite(_matrix(embeddings)[row]).all()
        raise VectorError(f"embedding {row} is {'zero' if finite else 'not finite'}")
    return quantized


def quantize_rows(embeddings: ArrayLike) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """`quantize` with zeros for rows that are zero or not finite: (int16 (m, D), mask (m,) of these
    rows).
    """
    v = _matrix(embeddings)
    largest = np.abs(v).max(axis=1, initial=0.0)
    invalid = ~(np.isfinite(largest) & (largest > 0))
    if invalid.any():
        v = np.where(invalid[:, None], 1.0, v)
        largest = np.where(invalid, 1.0, largest)
    extreme = (largest > 1e100) | (largest < 1e-100)
    if extreme.any():  # squares would overflow or vanish; a power of two changes no other bit
        v = np.where(extreme[:, None], np.ldexp(v, -np.frexp(largest)[1][:, None]), v)
    quantized = np.rint(SCALE * v / np.sqrt(_squared_norms(v))[:, None]).astype(np.int16)
    quantized[invalid] = 0
    return quantized, invalid


def _matrix(embeddings: ArrayLike) -> NDArray[np.float64]:
    try:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            v = np.asarray(embeddings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise VectorError(f"embeddings are not a matrix of numbers: {error}") from None
    if v.ndim != 2 or v.shape[1] == 0:
        raise VectorError(f"embeddings must be (m, D), not {v.shape}")
    return v


def _squared_norms(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared norms (m,), added in one fixed order by folding halves.

    A library's own sum depends on the processor's vector width. One unit in the last place of the
    norm could change a rounding, and two machines would store two vectors for one embedding.
    """
    squares = v * v
    while (width := squares.shape[1]) > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:]
        squares = squares[:, :half]
    return squares[:, 0]
