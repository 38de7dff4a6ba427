"""Files of vectors by text, in Parquet: what `embed` writes and `vectors import` reads.

Columns: `text`, and `vector` with little-endian int16 (`worker.coversumm.quantize`). The file's
metadata describes the engine and the work. Equal rows in equal blocks make equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.extras import install_command
from worker.sources.opened import Closing
from worker.sources.parquet import ParquetTable
from worker.storage.shared_files import replacing

_ABOUT: Final = b"coversumm.vectors"
_TEXT, _VECTOR = "text", "vector"
_DTYPE: Final = np.dtype("<i2")


class TextVectors(NamedTuple):
    """Texts, and their vectors (len(texts), dimension) of int16."""

    texts: list[str]
    vectors: NDArray[np.int16]


class VectorFile(Closing):
    """An open file of vectors. `with` opens it.

    Attributes:
        about: what `write_vectors` was given.
        rows: number of texts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about: dict[str, Any] = {}
        self.rows = 0

    def __enter__(self) -> VectorFile:
        """Raises SetupError if it cannot be read, or is no file of vectors."""
        with ExitStack() as opened:
            try:
                stream = opened.enter_context(self.path.open("rb"))
            except OSError as cause:
                raise SetupError(f"{self.path} cannot be read ({cause.strerror})") from cause
            self._table = ParquetTable(stream, str(self.path))
            about = (self._table.file.schema_arrow.metadata or {}).get(_ABOUT)
            if about is None:
                raise SetupError(f"{self.path} has no vectors of `embed`")
            self.about = json.loads(about)
            self.rows = self._table.row_count
            self._opened = opened.pop_all()
        return self

    def blocks(self) -> Iterator[TextVectors]:
        """All rows in order. Raises SetupError if the file is damaged."""
        for batch in self._table.batches((_TEXT, _VECTOR)):
            data = b"".join(batch.column(_VECTOR).to_pylist())
            vectors = np.frombuffer(data, _DTYPE).reshape(batch.num_rows, -1)
            yield TextVectors(batch.column(_TEXT).to_pylist(), vectors.astype(np.int16, copy=False))


def write_vectors(
    target: Path, about: dict[str, Any], dimension: int, blocks: Iterable[TextVectors], folder: Path
) -> None:
    """Write a file, each block a group of rows. It replaces `target` when it is complete.

    `folder`, on the same file system, has it until then. Raises SetupError without PyArrow, OSError
    if it cannot be written.
    """
    pyarrow = check_parquet()
    schema = pyarrow.schema(
        [
            pyarrow.field(_TEXT, pyarrow.string(), nullable=False),
            pyarrow.field(_VECTOR, pyarrow.binary(_DTYPE.itemsize * dimension), nullable=False),
        ],
        {_ABOUT: json.dumps(about)},
    )
    with (
        replacing(target, folder) as stream,
        pyarrow.parquet.ParquetWriter(
            stream,
            schema,
            compression={_TEXT: "zstd", _VECTOR: "none"},  # vectors compress like noise
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        ) as writer,
    ):
        for block in blocks:
            data = pyarrow.py_buffer(block.vectors.astype(_DTYPE, order="C", copy=False))
            of_text, of_vector = (schema.field(name).type for name in (_TEXT, _VECTOR))
            columns = [
                pyarrow.array(block.texts, of_text),
                pyarrow.Array.from_buffers(of_vector, len(block.texts), [None, data]),
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def check_parquet() -> Any:
    """PyArrow. Raises SetupError, which says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise SetupError(
            f"files of vectors are Parquet; to write them: {install_command('parquet')}"
        ) from error
    return pyarrow
