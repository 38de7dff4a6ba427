"""What the processor asks of a store of vectors; that in RocksDB is `worker.storage.vectors`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class VectorStore(Protocol):
    """Quantized vectors by exact text, of one engine. It may forget any of them at any time, and never gives another's.

    Nothing is raised: where it does not work it has no vectors, and takes none.
    """

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.int16]]:
        """The vectors (dimension,) of those texts that have one here."""

    def add(self, vectors: Mapping[str, NDArray[np.int16]]) -> None:
        """Keep these, which the engine has just made."""

    @property
    def disk_bytes(self) -> int:
        """What it takes on disk, as it was a short while ago."""
