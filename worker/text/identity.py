"""The identity of vectors: weights, software, processor, and a test of the result.

A stored vector may replace a new one only if both have the same bits. Declared facts (versions,
instruction sets) may miss something, such as another kernel or build flag of a library. The
identity therefore includes the vectors of fixed sentences of many lengths: an engine with other
bits has another identity.
"""

import hashlib
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

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
)  # sentences of 3 to 256 tokens, for different matrix kernels
_CPUINFO: Final = Path("/proc/cpuinfo")
_INSTRUCTION_SETS: Final = {
    "flags": ("amx", "avx", "f16c", "fma", "sse", "ssse"),
    "Features": ("asimd", "bf16", "i8mm", "sme", "sve"),
}
"""By the name of the line that lists them: prefixes of instruction sets for vector computation."""


class EngineIdentity(NamedTuple):
    """Engines with one identity give one text the same bits."""

    model: str
    dimension: int
    machine: str  # architecture and instruction sets
    software: str  # packages with versions
    probe: str  # digest of the vectors of `PROBES`, hexadecimal

    @property
    def digest(self) -> bytes:
        """A digest of all fields, `DIGEST_BYTES` bytes."""
        return hashlib.blake2b(repr(tuple(self)).encode(), digest_size=DIGEST_BYTES).digest()


def engine_identity(engine: EmbeddingEngine) -> EngineIdentity:
    """The identity of an engine; embeds a few sentences."""
    vectors = engine.embed(PROBES).astype("<f4", copy=False).tobytes()
    probe = hashlib.blake2b(vectors, digest_size=DIGEST_BYTES).hexdigest()
    packages = software(getattr(engine, "libraries", ()))
    return EngineIdentity(engine.model, engine.dimension, machine_type(), packages, probe)


def machine_type() -> str:
    """Architecture and instruction sets; on macOS only the architecture."""
    for name, begins in _INSTRUCTION_SETS.items():
        if (listed := processor_fact(name)) is not None:
            sets = {flag for flag in listed.split() if flag.startswith(begins)}
            return " ".join([platform.machine(), *sorted(sets)])
    return platform.machine()


def processor_fact(name: str) -> str | None:
    """The first core's entry of this name in /proc/cpuinfo, such as `vendor_id`; or None."""
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    facts = (line.partition(":") for line in lines)
    return next((fact.strip() for said, _, fact in facts if said.strip() == name), None)


def software(packages: Iterable[str]) -> str:
    """The installed versions of these packages, by name."""
    return ", ".join(f"{name} {_version(name)}" for name in sorted(packages))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
