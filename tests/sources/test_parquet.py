"""Parquet gives what the same reviews give as JSON lines, row by row, in bounded memory."""

import base64
import gzip
import io
import json
import os
import struct
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tests.harness.limits import event_limits
from worker.errors import SetupError
from worker.events import Record, decode
from worker.events.inputs import ReviewUpserted
from worker.extras import install_command
from worker.sources import Faulty, ReviewFiles
from worker.sources import parquet as parquet_reading

FIELDS = {
    "entity_id": "asin",
    "review_id": "id",
    "text": "body",
    "rating": "stars",
    "occurred_at": "when",
}


def read(table, fields=None, **options):
    with TemporaryDirectory() as directory:
        path = Path(directory) / "given.parquet"
        parquet.write_table(table, path, **options)
        with ReviewFiles([str(path)], fields or {}) as reviews:
            found = list(reviews)
            assert reviews.position == reviews.size
            assert (reviews.unit, reviews.lines) == ("rows", table.num_rows)
        return found, reviews.left_out


def values(found):
    return [json.loads(entry.value) for entry in found]


def one(**columns):
    """The event of a table with one row; columns are values or arrays."""
    arrays = {
        name: value if isinstance(value, pa.Array) else pa.array([value])
        for name, value in columns.items()
    }
    ids = {"entity_id": pa.array(["e"]), "review_id": pa.array(["r"]), "text": pa.array(["Good."])}
    (event,) = values(read(pa.table({**ids, **arrays}))[0])
    return event


texts = st.text(st.characters(exclude_categories=["Cs"]))
reviews = st.fixed_dictionaries(
    {
        "asin": texts.filter(bool) | st.none(),
        "id": st.integers(0, 2**40),
        "body": texts | st.none(),
        "stars": st.floats(0, 5, width=32) | st.none(),
        "when": st.sampled_from([None, "2019-03-04", "March 4, 2019", "03/04/2019"]),
        "sentences": st.none() | st.lists(texts, max_size=3),
        "unused": st.dates().map(str),
    }
)


@given(st.lists(reviews, min_size=1, max_size=30), st.integers(1, 40), st.booleans())
def test_parquet_and_json_lines_of_the_same_reviews_are_the_same_events(
    given_reviews, group, dictionary
):
    columns = {name: [review[name] for review in given_reviews] for name in given_reviews[0]}
    table = pa.table(
        {**columns, "sentences": pa.array(columns["sentences"], pa.list_(pa.string()))}
    )
    of_parquet, left_out = read(table, FIELDS, row_group_size=group, use_dictionary=dictionary)
    lines = b"".join(
        json.dumps(
            {name: value for name, value in review.items() if value is not None}
            | ({"body": None} if review["body"] is review["sentences"] is None else {})
        ).encode()
        + b"\n"
        for review in given_reviews
    )
    with TemporaryDirectory() as directory:
        path = Path(directory) / "given.parquet"
        path.write_bytes(lines)
        with ReviewFiles([str(path)], FIELDS) as reviews:
            assert [(r.topic, r.offset, r.key) for r in of_parquet] == [
                (r.topic, r.offset, r.key) for r in reviews
            ]
        with ReviewFiles([str(path)], FIELDS) as reviews:
            assert values(of_parquet) == values(reviews)
    assert left_out == reviews.left_out


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (pa.array([datetime(2019, 3, 4, 14, 5, 6)], pa.timestamp("s")), "2019-03-04T14:05:06Z"),
        (
            pa.array([1551708306123], pa.timestamp("ms", "America/New_York")),
            "2019-03-04T14:05:06.123000Z",
        ),
        (pa.array([datetime(2019, 3, 4, 14, 5, 6, 7, tzinfo=UTC)]), "2019-03-04T14:05:06.000007Z"),
        (pa.array([1551708306123456789], pa.timestamp("ns")), "2019-03-04T14:05:06.123456Z"),
        (pa.array([date(2019, 3, 4)]), "2019-03-04T00:00:00Z"),
        (pa.array([date(2019, 3, 4)], pa.date64()), "2019-03-04T00:00:00Z"),
        (pa.array([1551708306]), "2019-03-04T14:05:06Z"),
        (pa.array(["March 4, 2019"]), "2019-03-04T00:00:00Z"),
        (pa.array([2**62], pa.timestamp("us")), None),
        (pa.array([None], pa.timestamp("us")), None),
    ],
)
def test_moments_are_rfc_3339(moment, written):
    assert one(occurred_at=moment).get("occurred_at") == written
    assert one(created_at=moment).get("occurred_at") == written


def test_a_moment_outside_the_calendar_is_left_out_and_told():
    table = pa.table(
        {
            "entity_id": ["e"],
            "review_id": ["r"],
            "text": ["x"],
            "occurred_at": pa.array([2**62], pa.timestamp("us")),
        }
    )
    _, left_out = read(table)
    assert (left_out["occurred_at"].first_line, left_out["occurred_at"].count) == (1, 1)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"rating": Decimal("4.50")}, {"rating": 4.5}),
        ({"rating": Decimal("4.00")}, {"rating": 4}),
        ({"rating": pa.array([4], pa.uint8())}, {"rating": 4}),
        ({"rating": pa.array([3.5], pa.float16())}, {"rating": 3.5}),
        ({"rating": float("nan")}, {}),
        ({"review_id": Decimal(81)}, {"review_id": "81"}),
        ({"review_id": pa.array([2**64 - 1], pa.uint64())}, {"review_id": str(2**64 - 1)}),
        ({"review_id": pa.array([UUID(int=1).bytes], pa.uuid())}, {"review_id": str(UUID(int=1))}),
        ({"text": "schön 💚".encode()}, {"text": "schön 💚"}),
        ({"text": pa.array(["Fine."]).dictionary_encode()}, {"text": "Fine."}),
        ({"text": pa.array(["Fine."], pa.large_string())}, {"text": "Fine."}),
        ({"text": pa.array(["Fine."], pa.string_view())}, {"text": "Fine."}),
        ({"language": pa.array([None], pa.string())}, {}),
        ({"sentences": pa.array([["a", None]])}, {"sentences": ["a", None]}),
    ],
)
def test_each_type_is_what_json_would_have(columns, expected):
    assert (
        one(**columns)
        == {"type": "review.upserted", "entity_id": "e", "review_id": "r", "text": "Good."}
        | expected
    )


VECTOR = [0.25, -1.5]
PACKED = struct.pack("<2f", *VECTOR)


@pytest.mark.parametrize(
    ("type_", "value", "in_json"),
    [
        (pa.list_(pa.float32()), VECTOR, base64.b64encode(PACKED).decode()),
        (pa.list_(pa.float32(), 2), VECTOR, base64.b64encode(PACKED).decode()),
        (pa.large_list(pa.float16()), VECTOR, base64.b64encode(PACKED).decode()),
        (pa.list_(pa.float64()), VECTOR, VECTOR),
        (pa.binary(), PACKED, base64.b64encode(PACKED).decode()),
        (pa.binary(8), PACKED, base64.b64encode(PACKED).decode()),
        (pa.list_(pa.float32()), [0.25, None], [0.25, None]),
        (pa.list_(pa.float32()), None, None),
    ],
)
def test_nested_sentences_and_their_vectors(type_, value, in_json):
    """As JSON has them; what a vector is comes out the same, and what is none is for `decode` to
    say.
    """
    sentences = pa.list_(pa.struct({"text": pa.string(), "embedding": type_}))
    table = pa.table(
        {
            "entity_id": ["e"],
            "review_id": ["r"],
            "sentences": pa.array([[{"text": "Good.", "embedding": value}]], sentences),
        }
    )
    (record,), _ = read(table)
    assert json.loads(record.value)["sentences"] == [{"text": "Good.", "embedding": in_json}]
    (event,) = decode([record], event_limits(dimension=2))
    assert isinstance(event, ReviewUpserted) == (in_json != [0.25, None])


numbers = st.floats(width=16, allow_nan=False, allow_infinity=False)
vectors = (
    st.none()
    | st.lists(numbers, min_size=2, max_size=2)
    | st.lists(numbers | st.none(), min_size=2, max_size=2)
)
nested = st.none() | st.lists(
    st.none() | st.fixed_dictionaries({"text": st.text("ab"), "embedding": vectors}), max_size=3
)


@given(
    st.lists(nested, min_size=1, max_size=20),
    st.sampled_from(
        [pa.list_(pa.float32()), pa.list_(pa.float16(), 2), pa.large_list(pa.float32())]
    ),
    st.integers(1, 2000),
)
def test_vectors_are_bytes_wherever_they_are(given_sentences, type_, piece_bytes):
    """Nulls at every depth, and batches cut anywhere."""
    sentences = pa.array(
        given_sentences, pa.list_(pa.struct({"text": pa.string(), "embedding": type_}))
    )
    ids = [str(number) for number in range(len(sentences))]
    with mock.patch.object(parquet_reading, "PIECE_BYTES", piece_bytes):
        found, _ = read(pa.table({"entity_id": ids, "review_id": ids, "sentences": sentences}))
    for event, expected in zip(values(found), given_sentences, strict=True):
        for sentence, other in zip(event.get("sentences") or [], expected or [], strict=True):
            vector = other and other["embedding"]
            is_whole = vector is not None and None not in vector
            packed = base64.b64encode(struct.pack("<2f", *vector)).decode() if is_whole else vector
            assert sentence == (other and {**other, "embedding": packed})
        assert ("sentences" in event) == (expected is not None)


def test_events_are_events():
    """Where there is a type; a row without one is a bare review."""
    table = pa.table(
        {
            "type": ["review.deleted", "sentences.deleted", None],
            "entity_id": ["e", "e", "e"],
            "review_id": ["r", None, "s"],
            "review_version": [3, None, None],
            "sentence_ids": [None, ["r#1"], None],
            "reason": ["spam", None, None],
        }
    )
    assert values(read(table)[0]) == [
        {
            "type": "review.deleted",
            "entity_id": "e",
            "review_id": "r",
            "review_version": 3,
            "reason": "spam",
        },
        {"type": "sentences.deleted", "entity_id": "e", "sentence_ids": ["r#1"]},
        {"type": "review.upserted", "entity_id": "e", "review_id": "s"},
    ]


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (pa.timestamp("ns"), 1551708306123456789, "2019-03-04T14:05:06.123456Z"),
        (pa.timestamp("s", "America/New_York"), 1551708306, "2019-03-04T14:05:06Z"),
        (pa.timestamp("us"), 2**62, 2**62),
        (pa.date32(), date(2019, 3, 4), "2019-03-04T00:00:00Z"),
        (pa.uuid(), UUID(int=1).bytes, str(UUID(int=1))),
    ],
)
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list, lambda of: pa.list_(of, 2)])
def test_members_of_sentences_are_what_json_would_have(type_, value, written, list_of):
    members = pa.struct({"text": pa.string(), "of": type_})
    within = pa.StructArray.from_arrays(
        [pa.array(["Good.", "Fine."]), pa.array([value, None], type_)], fields=list(members)
    )
    offsets = pa.array([0, 2], pa.int32() if list_of is pa.list_ else pa.int64())
    if list_of(members).id == list_of(pa.int8()).id == pa.list_(pa.int8(), 2).id:
        given = pa.FixedSizeListArray.from_arrays(within, 2)
    else:
        kind = pa.ListArray if list_of is pa.list_ else pa.LargeListArray
        given = kind.from_arrays(offsets, within)
    assert one(sentences=given)["sentences"] == [
        {"text": "Good.", "of": written},
        {"text": "Fine.", "of": None},
    ]


@pytest.mark.parametrize("columns", [["text"], ["text", "sentences"]])
def test_a_null_text_is_that_of_json_and_the_review_has_no_sentence(columns):
    given = {"entity_id": ["e"], "review_id": ["r"], "rating": [5]}
    given |= {name: pa.array([None], pa.string()) for name in columns}
    (record,), left_out = read(pa.table(given))
    assert json.loads(record.value)["text"] is None
    assert left_out["text"].count == 1
    (event,) = decode([record], event_limits())
    assert (event.details.rating, event.text, event.sentences) == (5, None, None)


def test_a_row_with_text_that_is_not_utf_8_is_one_bad_row():
    text = pa.array([b"fine", b"sch\xf6n", b"good"])
    table = pa.table({"entity_id": ["e"] * 3, "review_id": ["1", "2", "3"], "text": text})
    found, _ = read(table)
    assert found[1] == Faulty(2, "bad_row", "text: a text is not UTF-8")
    assert [entry.offset for entry in found if isinstance(entry, Record)] == [0, 2]
    strings = pa.Array.from_buffers(pa.string(), 3, text.buffers())
    assert read(table.set_column(2, "text", strings))[0] == found


def test_an_id_of_bytes_is_written_in_digits_if_asked_for_else_refused():
    ids = [bytes([255, *range(15)]), b"sixteen letters!"]
    table = pa.table(
        {"entity_id": pa.array(ids, pa.binary(16)), "id": ["1", "2"], "text": ["a"] * 2}
    )
    named = {"review_id": "id"}
    found, _ = read(table, named)
    why = "entity_id: 16 bytes that are not UTF-8; for digits: --bytes hex"
    assert found[0] == Faulty(1, "bad_row", why)
    assert found[1].key == ids[1]
    found, _ = read(table, named | {"bytes": "hex"})
    assert [entry.key for entry in found] == [value.hex().encode() for value in ids]
    assert read(table.slice(0, 1).append_column("x", [["y"]]), named | {"bytes": "hex"})[0]


@pytest.mark.parametrize(
    ("columns", "fields", "message"),
    [
        (
            {"asin": ["e"], "body": ["x"]},
            {},
            "--fields entity_id=COLUMN,review_id=COLUMN,text=COLUMN",
        ),
        ({"entity_id": ["e"], "review_id": ["r"]}, {}, "--fields text=COLUMN"),
        ({"entity_id": ["e"]}, {"text": "body"}, "has no column body (for text); it has entity_id"),
    ],
)
def test_columns_that_are_missing_are_named(columns, fields, message):
    with pytest.raises(SetupError) as raised:
        read(pa.table(columns), fields)
    assert message in str(raised.value)


@pytest.fixture
def content():
    written = io.BytesIO()
    parquet.write_table(
        pa.table({"entity_id": ["e"], "review_id": ["r"], "text": ["x"] * 1}), written
    )
    return written.getvalue()


def refused(path):
    with pytest.raises(SetupError) as raised, ReviewFiles([str(path)]):
        pass
    assert "\n" not in str(raised.value)
    return str(raised.value).removeprefix(str(path))


def test_what_cannot_be_read_is_one_line(tmp_path, content, monkeypatch):
    path = tmp_path / "given.parquet"
    path.write_bytes(content[:-30])
    assert refused(path).startswith(" cannot be read (")
    path.write_bytes(gzip.compress(content))
    assert refused(path).startswith(" is a Parquet file, compressed as one: unpack it first")
    path.write_bytes(content)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert refused(path) == f" is a Parquet file; to read it: {install_command('parquet')}"


def test_rows_that_are_missing_are_told(tmp_path):
    """A row group that says it had one more."""
    path = tmp_path / "given.parquet"
    parquet.write_table(
        pa.table({"entity_id": ["e"] * 100, "review_id": ["r"] * 100, "text": ["x"] * 100}), path
    )
    a_hundred, one_more = (
        b"\x16\xc8\x01",
        b"\x16\xca\x01",
    )  # as Thrift's compact protocol writes a field of them
    before, _, after = path.read_bytes().rpartition(a_hundred)
    path.write_bytes(before + one_more + after)
    with (
        pytest.raises(SetupError, match="its columns have not as many rows as it says"),
        ReviewFiles([str(path)]) as reviews,
    ):
        list(reviews)


def test_a_pipe_cannot_be_read_from_its_end(tmp_path, content):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'wb').write({content!r})"]):
        assert refused(pipe) == " is Parquet, which is read from its end: name the file"


def test_one_large_row_group_is_read_in_bounded_memory(tmp_path):
    """100,000 reviews, 50 MB of text that no dictionary makes smaller, in less than a third of
    that.
    """
    path = tmp_path / "large.parquet"
    rows = 20_000
    texts = pa.array([os.urandom(250).hex() for _ in range(rows)])
    ids = pa.array([str(number) for number in range(rows)])
    batch = pa.record_batch({"entity_id": ids, "review_id": ids, "text": texts})
    table = pa.Table.from_batches([batch] * 5)
    parquet.write_table(
        table, path, row_group_size=table.num_rows, use_dictionary=False, compression="snappy"
    )
    del table
    code = (
        "import resource, sys\n"
        "from worker.sources import ReviewFiles\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "with ReviewFiles([sys.argv[1]]) as reviews:\n"
        "    entries = iter(reviews)\n"
        "    next(entries)\n"
        "    before = peak()\n"
        "    print(1 + sum(1 for _ in entries), peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    count, grown = map(int, done.stdout.split())
    assert count == 5 * rows
    assert path.stat().st_size > 5e7
    assert grown < 1.5e7


def in_struct(values):
    return pa.StructArray.from_arrays([values], ["text"])


def in_lists(values):
    """Of three, none and one, from row to row."""
    ends = [0]
    while ends[-1] < len(values):
        ends.append(min(ends[-1] + (3, 0, 1)[len(ends) % 3], len(values)))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


@pytest.mark.parametrize(
    "within",
    [
        lambda values: values,
        in_struct,
        in_lists,
        lambda values: in_lists(in_struct(values)),
        lambda values: in_struct(in_lists(values)),
        lambda values: pa.FixedSizeListArray.from_arrays(values, 2),
        lambda values: pa.MapArray.from_arrays(range(301), ["key"] * 300, values),
    ],
)
@pytest.mark.parametrize("options", [{"row_group_size": 100}, {"store_schema": False}])
def test_rows_that_share_a_large_text_are_read_in_few_at_once(within, options):
    """A file of kilobytes: all rows at once would be many times MOST_BYTES."""
    texts = pa.array([letter * 2**18 for letter in "abcd"])
    places = [None if number % 7 == 0 else number % 4 for number in range(300)]
    shared = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), texts)
    table = pa.table({"sentences": within(shared)})
    stream = io.BytesIO()
    parquet.write_table(
        table, stream, compression="zstd", dictionary_pagesize_limit=2**24, **options
    )
    assert len(stream.getvalue()) < 50_000
    reading = parquet_reading.ParquetTable(stream, "given.parquet")
    start = 0
    for batch in reading.batches(["sentences"]):
        expected = table.slice(start, batch.num_rows).column("sentences").to_pylist()
        assert len(str(expected)) <= parquet_reading.MOST_BYTES + 2**20
        assert batch.column("sentences").to_pylist() == expected
        start += batch.num_rows
    assert start == table.num_rows


@pytest.mark.parametrize("group", [150, 45])
@pytest.mark.parametrize(
    "within", [lambda values: values, lambda values: in_lists(in_struct(values))]
)
def test_rows_that_share_a_text_too_large_to_be_kept_are_read_in_few_at_once(within, group):
    """The chunk is larger than what is read with its dictionary, whose first rows have no value."""
    texts = pa.array(["short", "x" * 5 * 2**20])
    places = pa.array([None] * 30 + [0] * 90 + [1] * 30, pa.int32())
    table = pa.table({"sentences": within(pa.DictionaryArray.from_arrays(places, texts))})
    stream = io.BytesIO()
    parquet.write_table(
        table,
        stream,
        compression="zstd",
        dictionary_pagesize_limit=2**24,
        store_schema=False,
        row_group_size=group,
    )
    assert len(stream.getvalue()) < 50_000
    reading = parquet_reading.ParquetTable(stream, "given.parquet")
    sizes, found = [], []
    for batch in reading.batches(["sentences"]):
        values = batch.column("sentences").to_pylist()
        sizes.append(sum(len(str(value)) for value in values))
        found += [hash(str(value)) for value in values]
    assert max(sizes) <= parquet_reading.MOST_BYTES
    assert found == [hash(str(item.as_py())) for item in table.column("sentences")]


def test_lists_of_many_small_values_are_read_in_few_rows_at_once():
    """A file of kilobytes: their places in the dictionary would be 32 MB."""
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(8_000_000, np.int32)), pa.array([""]))
    offsets = pa.array(np.arange(0, 8_000_001, 4000, np.int32))
    stream = io.BytesIO()
    parquet.write_table(pa.table({"sentences": pa.ListArray.from_arrays(offsets, values)}), stream)
    assert len(stream.getvalue()) < 50_000
    reading = parquet_reading.ParquetTable(stream, "given.parquet")
    batches = [(batch.num_rows, batch.nbytes) for batch in reading.batches(["sentences"])]
    assert sum(rows for rows, _ in batches) == 2000
    assert max(size for _, size in batches) <= parquet_reading.PIECE_BYTES
