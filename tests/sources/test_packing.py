"""Packed files give what is in them, whatever their names; damaged ones end with a line that says
so.
"""

import bz2
import gzip
import lzma
import sys

import pyarrow
import pytest

from worker.errors import SetupError
from worker.extras import install_command
from worker.sources import ReviewFiles

LINES = b"".join(
    b'{"entity_id":"e","review_id":%d,"text":"Good."}\n' % number for number in range(20_000)
)


def zstd(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


PACKINGS = pytest.mark.parametrize("packing", [gzip.compress, bz2.compress, lzma.compress, zstd])


def read(path):
    with ReviewFiles([str(path)]) as reviews:
        for entry in reviews:
            assert 0 < reviews.position <= reviews.size
            yield entry


@PACKINGS
def test_packed_lines_are_the_same_lines(tmp_path, packing):
    """Also where several packed files were put together to one, as `cat` does."""
    plain, packed = tmp_path / "reviews", tmp_path / "packed" / "reviews"
    packed.parent.mkdir()
    plain.write_bytes(LINES)
    half = len(LINES) // 2
    packed.write_bytes(packing(LINES[:half]) + packing(LINES[half:]))
    found = list(read(packed))
    assert found == list(read(plain))
    assert len(found) == 20_000


@PACKINGS
def test_a_damaged_one_is_told_with_the_last_line_that_was_read(tmp_path, packing):
    path = tmp_path / "reviews"
    path.write_bytes(packing(LINES)[:-20])
    with pytest.raises(SetupError, match=r"reviews cannot be read( after line \d+)? \("):
        list(read(path))


def test_zstd_without_the_library_is_told_with_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "reviews.zst"
    path.write_bytes(zstd(LINES))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError) as told:
        list(read(path))
    assert str(told.value) == (
        f"{path} is compressed with zstd: {install_command('parquet')}, "
        f"or zstdcat {path} | ..., with - for the file"
    )
