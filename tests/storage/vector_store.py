"""A small store of vectors."""

import numpy as np

from worker.storage.vectors import StoredVectors
from worker.text.identity import EngineIdentity

IDENTITY = EngineIdentity("model@1", 4, "x86_64 avx2", "onnxruntime 1", "probe")
MIB = 2**20


def vector(number, dimension=4):
    return np.arange(number, number + dimension, dtype=np.int16)


def opened(folder, identity=IDENTITY, max_bytes=16 * MIB, **options):
    return StoredVectors(folder, max_bytes, identity, **options)
