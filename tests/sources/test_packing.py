"""Packed files give what is in them, whatever their names; damaged ones end with a line that says
so.
"""

import bz2
import gzip
import lzma
import struct
import sys

import pyarrow
import pytest

from worker.errors import SetupError
from worker.extras import install_command
from worker.sources import ReviewFiles, opened
from worker.sources.opened import OpenedFile

LINES = b"".join(
    b'{"entity_id":"e","review_id":%d,"text":"Good."}\n' % number for number in range(5000)
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
    assert len(found) == 5000


@pytest.mark.parametrize("length", [99, 100, 101, 199, 200, 201, 5000])
@pytest.mark.parametrize("source", ["packed", "utf-16", "pipe"])
def test_of_a_line_too_long_for_an_event_only_the_beginning_is_kept(
    tmp_path, monkeypatch, length, source
):
    """A packed one may be thousands of times as long as its file."""
    monkeypatch.setattr(opened, "MOST_LINE", 100)
    lines = ["{" + "x" * (length - 1), '{"a":1}', "{" * length, "{}"]
    text = "\n".join(lines)
    path = tmp_path / "reviews"
    if source == "packed":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-16" if source == "utf-16" else "utf-8")
    if source == "pipe":
        with open(path, "rb", 64) as file:
            found = [line for line in opened._arriving(file) if line is not None]
    else:
        with OpenedFile(str(path), "reviews") as file:
            found = list(file.lines())
    most = 100 + 64 if source == "pipe" else 100
    assert len(found) == 4
    for line, whole in zip(found, lines, strict=True):
        kept = line.rstrip(b"\n").decode()
        assert kept == whole[: len(kept)]
        assert min(len(whole), 100) <= len(kept) <= most
    assert found[3] == b"{}"


@PACKINGS
def test_a_damaged_one_is_told_with_the_last_line_that_was_read(tmp_path, packing):
    path = tmp_path / "reviews"
    path.write_bytes(packing(LINES)[:-20])
    with pytest.raises(SetupError, match=r"reviews cannot be read( after line \d+)? \("):
        list(read(path))


@pytest.mark.parametrize("count", [3, 3000])
def test_of_a_cut_one_every_line_that_can_be_unpacked_is_read(tmp_path, count):
    path = tmp_path / "reviews"
    path.write_bytes(b"".join(map(zstd, LINES.splitlines(keepends=True)[:count]))[:-7])
    with pytest.raises(SetupError, match=f"cannot be read after line {count - 1} "):
        list(read(path))


@pytest.mark.parametrize("places", [[0], [1], [0, 1, 2]])
def test_frames_of_zstd_without_content_are_passed_over(tmp_path, places):
    path = tmp_path / "reviews"
    parts = [zstd(LINES[:5000]), zstd(LINES[5000:])]
    for place in reversed(places):
        parts.insert(place, struct.pack("<II", 0x184D2A5F - place, 3) + b"abc")
    path.write_bytes(b"".join(parts))
    assert len(list(read(path))) == 5000


def test_zstd_without_the_library_is_told_with_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "reviews.zst"
    path.write_bytes(zstd(LINES))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SetupError) as raised:
        list(read(path))
    assert str(raised.value) == (
        f"{path} is compressed with zstd: {install_command('parquet')}, "
        f"or zstdcat {path} | ..., with - for the file"
    )
