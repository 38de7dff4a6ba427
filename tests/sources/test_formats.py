"""What a file is, by its first bytes; and one line about what cannot be read."""

import codecs
import gzip
import io
import re
import zipfile

import pytest

from tests.harness.limits import event_limits
from worker.errors import SetupError
from worker.events import Record, Rejected, decode
from worker.sources import ReviewFiles
from worker.sources.opened import recognize

OBJECT = b'{"entity_id": "e", "review_id": "r", "text": "Good."}\n'


def zipped():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("reviews.jsonl", OBJECT)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("head", "looks", "advice"),
    [
        (b"[" + OBJECT.strip() + b"]", "a JSON array", "jq -c '.[]' given.jsonl > reviews.jsonl"),
        (b"[\n  {\n", "a JSON array", "jq -c '.[]'"),
        (b'{\n  "entity_id": "e"\n}\n', "JSON spread over several lines", "jq -c . given.jsonl"),
        (zipped(), "a ZIP archive", "unzip -p given.jsonl"),
        (b"PARE\x15\x04\x15", "an encrypted Parquet file", "without encryption"),
        (b"ARROW1\0\0", "an Arrow (Feather) file", "parquet.write_table"),
        (b"SQLite format 3\0", "an SQLite database", "convert it"),
        (b"\x7fELF\x02\x01\x01\0\0", "binary data", "JSON lines"),
        (b"<!DOCTYPE html>\n", "HTML or XML", "JSON lines"),
        (b"Dear reader,\nit was good.\n", "plain text", "CSV or TSV with a header"),
    ],
)
def test_one_line_says_what_it_looks_like_and_what_to_do(tmp_path, head, looks, advice):
    with pytest.raises(SetupError) as raised:
        recognize(head, "given.jsonl")
    assert str(raised.value).startswith(f"given.jsonl looks like {looks}")
    assert advice in str(raised.value)
    path = tmp_path / "packed.jsonl.gz"
    path.write_bytes(gzip.compress(head))
    with pytest.raises(SetupError, match=re.escape(looks)), ReviewFiles([str(path)]):
        pass


@pytest.mark.parametrize(
    ("head", "delimiter"),
    [
        (b"entity_id,review_id,text\n", ","),
        (b"entity_id;review_id;text\r\n", ";"),
        (b"entity_id\treview_id\ttext\n", "\t"),
        (b'"entity_id","review_id","text"\n', ","),
    ],
)
def test_a_table_is_known_by_its_header(head, delimiter):
    assert recognize(head, "standard input") == ("table", "utf-8", 0, delimiter)


def test_a_table_with_other_names_is_known_by_the_files_or_by_those_that_were_named():
    head = b"asin,id,body\n"
    assert recognize(head, "given.csv").kind == recognize(head, "given.csv.gz").kind == "table"
    assert recognize(head, "given", {"text": "body"}).kind == "table"
    with pytest.raises(SetupError, match="plain text"):
        recognize(head, "given")


@pytest.mark.parametrize(
    "head",
    [b"", b"\n \n", OBJECT, b"{\n" + OBJECT, b"{broken", b"no JSON\n" + OBJECT, b"[1]\n" + OBJECT],
)
def test_lines_of_json_may_be_broken(head):
    assert recognize(head, "given.jsonl").kind == "json"


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-16-le", b""),
        ("utf-16-be", b""),
    ],
)
def test_encodings(tmp_path, encoding, mark):
    text = OBJECT.decode().replace("Good", "Schön 💚") * 2
    path = tmp_path / "given.jsonl"
    path.write_bytes(mark + text.encode(encoding))
    with ReviewFiles([str(path)]) as reviews:
        found = list(reviews)
    assert [(record.offset, record.key) for record in found] == [(0, b"e"), (1, b"e")]
    assert "Schön 💚".encode() in found[0].value


CSV = "entity_id,review_id,text\ne,1,Good.\ne,2,Bad{}.\ne,3,Fine.\n"
JSON = "".join(
    f'{{"entity_id":"e","review_id":{number},"text":"Good{at}."}}\n'
    for number, at in enumerate(["", "{}", ""])
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("text", [CSV, JSON.replace("{}", "")])
def test_lines_may_end_as_on_an_old_macintosh(tmp_path, text, encoding):
    found = [read(tmp_path, text.replace("\n", end).encode(encoding)) for end in ("\n", "\r")]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def read(folder, content):
    path = folder / "given"
    path.write_bytes(content)
    with ReviewFiles([str(path)]) as reviews:
        return list(reviews)


@pytest.mark.parametrize(
    ("text", "bad", "is_read"),
    [
        (CSV.encode().replace(b"{}", b"\0"), b"Bad\\u0000.", True),
        (JSON.encode().replace(b"{}", b"\0"), b"Good\0.", True),
        (codecs.BOM_UTF16_LE + CSV.encode("utf-16-le").replace(b"{\0}\0", b"\x3d\xd8"), b"", False),
        (codecs.BOM_UTF16_LE + JSON.encode("utf-16-le").replace(b"{\0}\0", b"\x3d\xd8"), b"", True),
    ],
)
def test_a_byte_that_is_no_text_is_bad_in_its_row_alone(tmp_path, text, bad, is_read):
    first, second, third = read(tmp_path, text)
    assert (first.offset, third.offset, first.key, third.key) == (
        third.offset - 2,
        first.offset + 2,
        b"e",
        b"e",
    )
    assert isinstance(second, Record) is is_read
    if is_read:
        assert bad in second.value
    (judged,) = decode([second], event_limits()) if is_read else [second]
    assert isinstance(judged, Rejected) is (is_read and b"u0000" not in bad)
