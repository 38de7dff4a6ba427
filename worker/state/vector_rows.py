"""Rows of a vector store: embeddings by engine and exact text.

    E | engine              a description of the engine, in JSON
    V | engine | text       a vector

`engine` and `text` are digests of 16 bytes. A vector's value is `format u8 | check 16 | dimension *
int16`, little-endian; `check` is a digest of format, vector and the text itself, keyed by the
engine. So a vector is found only for the exact text and engine it was made for, bit for bit; a
damaged row, or another text or engine with the same digest, has none.
"""

from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

ENGINE: Final = b"E"
VECTOR: Final = b"V"
FORMAT: Final = b"\x01"
DIGEST_BYTES: Final = 16
_HEAD_BYTES: Final = len(FORMAT) + DIGEST_BYTES
_DTYPE: Final = np.dtype("<i2")


class VectorRows:
    """The rows of one engine, identified by the digest `engine`, with `dimension` components."""

    __slots__ = ("_dimension", "_engine", "_prefix")

    def __init__(self, engine: bytes, dimension: int) -> None:
        assert len(engine) == DIGEST_BYTES
        self._engine = engine
        self._dimension = dimension
        self._prefix = VECTOR + engine

    @property
    def engine_key(self) -> bytes:
        """Key of the row that describes the engine."""
        return ENGINE + self._engine

    @property
    def row_bytes(self) -> int:
        """Bytes of a key with its value."""
        return len(self._prefix) + DIGEST_BYTES + _HEAD_BYTES + _DTYPE.itemsize * self._dimension

    def key(self, text: str) -> bytes:
        """Key of a text's vector."""
        return self._prefix + blake2b(_bytes(text), digest_size=DIGEST_BYTES).digest()

    def encode(self, text: str, vector: NDArray[np.int16]) -> bytes:
        """The value for a text's vector (dimension,)."""
        assert vector.shape == (self._dimension,)
        data = vector.astype(_DTYPE, copy=False).tobytes()
        return FORMAT + self._check(text, data) + data

    def decode(self, text: str, value: bytes) -> NDArray[np.int16] | None:
        """The vector (dimension,), read-only, or None if `encode` did not make this value for the
        text.
        """
        data = value[_HEAD_BYTES:]
        if value[: len(FORMAT)] != FORMAT or len(data) != _DTYPE.itemsize * self._dimension:
            return None
        if value[len(FORMAT) : _HEAD_BYTES] != self._check(text, data):
            return None
        return np.frombuffer(data, dtype=_DTYPE).astype(np.int16, copy=False)

    def _check(self, text: str, data: bytes) -> bytes:
        check = blake2b(FORMAT, digest_size=DIGEST_BYTES, key=self._engine)
        # as long for every row of this engine, so where the text begins is no question
        check.update(data)
        check.update(_bytes(text))
        return check.digest()


def engine_of(key: bytes) -> bytes:
    """The engine's digest in a key of either kind."""
    return key[1 : 1 + DIGEST_BYTES]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
