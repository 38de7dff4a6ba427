"""What a file is packed with, by its first bytes, and how it is unpacked while it is read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import Any, Final, cast

from worker.errors import SurroundingsError

UNREADABLE: Final = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""What reading a packed file may raise: it ends early, is damaged, or its disk is."""
BUFFER_BYTES: Final = 2**16
ENDINGS: Final = (".gz", ".bz2", ".xz", ".zst")
"""How packed files are usually called."""
_MAGIC_BYTES: Final = 6


def unpacked(raw: io.BufferedReader, name: str) -> io.BufferedReader:
    """What is in the stream: of one that is not packed, the stream itself.

    Raises SurroundingsError where it is packed with zstd and nothing here can unpack that; UNREADABLE where it is damaged.
    """
    magic = raw.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    stream: Any
    if magic.startswith(b"\x1f\x8b"):
        stream = gzip.GzipFile(fileobj=raw)
    elif magic.startswith(b"BZh"):
        stream = bz2.BZ2File(raw)
    elif magic.startswith(b"\xfd7zXZ\x00"):
        stream = lzma.LZMAFile(raw)  # noqa: SIM115 - closed with what is underneath
    elif magic.startswith(b"\x28\xb5\x2f\xfd"):
        stream = _zstd(raw, name)
    else:
        return raw
    return io.BufferedReader(cast(io.RawIOBase, stream), BUFFER_BYTES)


def _zstd(raw: io.BufferedReader, name: str) -> Any:
    """No standard library of our Pythons knows zstd; the library that reads Parquet does."""
    try:
        import pyarrow
    except ImportError as error:
        raise SurroundingsError(
            f"{name} is compressed with zstd: pip install 'coversumm-worker[parquet]', "
            f"or zstdcat {name} | ..., with - for the file"
        ) from error
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, mode="r"), "zstd")
