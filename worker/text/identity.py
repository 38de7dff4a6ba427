"""What decides about the bits of a vector: weights, software, processor, and the proof of all that,
vectors themselves.

A vector that was kept may stand for one that would be made now only if both have the same bits.
What is declared (versions, instruction sets) may leave something out: another kernel of a library,
a flag of its build. So the identity has the vectors of fixed sentences, of many lengths, in it:
whoever gets other bits for them is another engine.
"""

import hashlib
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

from worker.text.embedders import packages_of
from worker.text.engine import EmbeddingEngine

DIGEST_BYTES: Final = 16
PROBES: Final = (
    "Great",
    "Good value",
    "The staff was friendly.",
    "I would not buy this again, sadly.",
    "Très bon accueil, chambre calme et 12 € de moins qu'ailleurs!",
    *(
        " ".join(["The room was clean and the host answered quickly."] * times)
        for times in (1, 2, 3, 5, 8, 13, 24)
    ),
)
"""Sentences of 3 to 256 tokens: products of matrices take other ways by their shapes."""
_CPUINFO: Final = Path("/proc/cpuinfo")
_INSTRUCTION_SETS: Final = {
    "flags": ("amx", "avx", "f16c", "fma", "sse", "ssse"),
    "Features": ("asimd", "bf16", "i8mm", "sme", "sve"),
}
"""By the line that lists them, what the names begin with of instruction sets that compute with
vectors.
"""


class EngineIdentity(NamedTuple):
    """Engines of one identity give one text the same bits."""

    model: str
    dimension: int
    machine: str
    """Architecture and instruction sets."""
    software: str
    """Packages with versions."""
    probe: str
    """Digest of the vectors of `PROBES`, hexadecimal."""

    @property
    def digest(self) -> bytes:
        """Stands for all of it, in `DIGEST_BYTES` bytes."""
        return hashlib.blake2b(repr(tuple(self)).encode(), digest_size=DIGEST_BYTES).digest()


def engine_identity(spec: str, engine: EmbeddingEngine) -> EngineIdentity:
    """The identity of an engine that was loaded by `spec`; embeds a few sentences."""
    vectors = engine.embed(PROBES).astype("<f4", copy=False).tobytes()
    probe = hashlib.blake2b(vectors, digest_size=DIGEST_BYTES).hexdigest()
    return EngineIdentity(
        engine.model, engine.dimension, machine_type(), software(packages_of(spec)), probe
    )


def machine_type() -> str:
    """Architecture and instruction sets; macOS has no list of these, so there the architecture
    alone.
    """
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, listed = line.partition(":")
        if begins := _INSTRUCTION_SETS.get(name.strip()):
            sets = {one for one in listed.split() if one.startswith(begins)}
            return " ".join([platform.machine(), *sorted(sets)])
    return platform.machine()


def software(packages: Iterable[str]) -> str:
    """The installed versions of these packages, by name."""
    return ", ".join(f"{name} {_version(name)}" for name in sorted(packages))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
