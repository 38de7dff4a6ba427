"""An archive gives the topic that it was made of, however its records are spread over files and row
groups.
"""

import gzip
import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from worker.errors import SetupError
from worker.events import Record
from worker.sources import Archive, Faulty, archive_files, is_archive

TOPIC = "reviews"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


def record(partition, offset, value=b"{}", key=b"e", timestamp=7, topic=TOPIC):
    return Record(topic, partition, offset, timestamp, key, value)


def rows(records):
    return [dict(zip(COLUMNS, record[:6], strict=True)) for record in records]


SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)


def write_parquet(path, records, schema=SCHEMA, **options):
    parquet.write_table(pa.Table.from_pylist(rows(records), schema=schema), path, **options)


def text(data):
    return None if data is None else data.decode()


def write_json(path, records, _options):
    lines = (
        {**row, "key": text(row["key"]), "value": text(row["value"])} | {"headers": []}
        for row in rows(records)
    )
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


WRITERS = {
    "parquet": lambda path, records, options: write_parquet(path, records, **options),
    "jsonl": write_json,
}


def everything(archive):
    return {partition: list(archive.read(partition)) for partition in archive.partitions()}


values = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(str.encode)
topics = st.dictionaries(
    st.integers(0, 3),
    st.dictionaries(st.integers(0, 40) | st.just(2**40), st.tuples(values, values), min_size=1),
    min_size=1,
).map(
    lambda topic: [
        record(partition, offset, value, key, offset * 10)
        for partition, found in topic.items()
        for offset, (key, value) in sorted(found.items())
    ]
)
spreads = st.tuples(
    st.integers(1, 4),  # files
    st.sampled_from(["in order", "interleaved", "anyhow"]),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(sorted(WRITERS)), min_size=4, max_size=4),
    st.fixed_dictionaries(
        {
            "row_group_size": st.integers(1, 50),
            "use_dictionary": st.booleans(),
            "compression": st.sampled_from(["snappy", "zstd", "none"]),
        }
    ),
    st.integers(0, 5),  # records that are in two files
)


def spread(records, folder, how):
    """Files in `folder` that hold the records."""
    count, order, seed, kinds, options, doubled = how
    chance = random.Random(seed)
    records = [*records, *chance.sample(records, min(doubled, len(records)))]
    if order == "in order":
        records.sort(key=lambda record: (record.partition, record.offset))
    elif order == "interleaved":
        records.sort(key=lambda record: (record.offset, record.partition))
    else:
        chance.shuffle(records)
    cuts = sorted(chance.choices(range(len(records) + 1), k=count - 1))
    paths = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(records)], strict=True)):
        paths.append(folder / f"{number}")
        WRITERS[kinds[number]](paths[-1], records[begin:end], options)
    chance.shuffle(paths)
    return list(map(str, paths))


@given(topics, spreads, st.integers(0, 45))
def test_any_spread_of_a_topic_gives_the_same_records(records, how, start):
    expected = {}
    for record in sorted(records, key=lambda record: (record.partition, record.offset)):
        expected.setdefault(record.partition, []).append(record)
    with TemporaryDirectory() as folder:
        archive = Archive(spread(records, Path(folder), how))
        assert archive.topic == TOPIC
        assert archive.partitions() == {
            partition: range(found[0].offset, found[-1].offset + 1)
            for partition, found in expected.items()
        }
        assert everything(archive) == expected
        for partition, found in expected.items():
            assert list(archive.read(partition, start)) == [
                record for record in found if record.offset >= start
            ]
        assert list(archive.faults()) == []


@pytest.mark.parametrize(
    "type_",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_keys_and_values_of_all_types_of_bytes(tmp_path, type_):
    schema = (
        SCHEMA.set(4, pa.field("key", type_))
        .set(5, pa.field("value", type_))
        .set(0, pa.field("topic", type_))
    )
    path = tmp_path / "a"
    columns = {
        "topic": pa.array([TOPIC] * 2).cast(pa.string()),
        "partition": [0, 0],
        "offset": [1, 2],
        "timestamp": [1, None],
        "key": pa.array(["schön", None]),
        "value": pa.array([None, "{}"]),
    }
    parquet.write_table(pa.table(columns).cast(schema), path)
    assert list(Archive([str(path)]).read(0)) == [
        record(0, 1, None, "schön".encode(), 1),
        record(0, 2, b"{}", None, -1),
    ]


@pytest.mark.parametrize(
    "type_",
    [pa.timestamp("ns"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("ms"), pa.timestamp("s")],
    ids=str,
)
def test_timestamps_are_milliseconds(tmp_path, type_):
    moment = datetime(2019, 3, 4, 14, 5, 6, tzinfo=UTC)
    table = pa.Table.from_pylist(rows([record(0, 0, timestamp=None)]), schema=SCHEMA)
    column = pa.array([int(moment.timestamp())], pa.timestamp("s")).cast(type_)
    parquet.write_table(table.set_column(3, "timestamp", column), tmp_path / "a")
    (found,) = Archive([str(tmp_path / "a")]).read(0)
    assert found.timestamp_ms == moment.timestamp() * 1000


LINES = [
    b'{"topic":"reviews","partition":0,"offset":3,"timestamp":5,"key":"e","value":"{\\"a\\": 1}"}',
    b"",
    b'{"topic":"reviews","partition":0,"offset":4,"timestamp":"2019-03-04T14:05:06.5Z","key":null,'
    b'"value": {"a": 1} }',
    b'{"topic":"reviews","tstype":"create","ts":9,"broker":0,"key":"e","partition":0,"offset":5,"payload":null}',
    b'{"topic":"reviews","partition":0,"offset":6,"entity_id":"e","review_id":7,"body":"Good.","when":"03/04/2019"}',
    b'{"topic":"reviews","partition":0,"offset":7,"key":"k","type":"entity.deleted","entity_id":"e"}',
]


def test_lines_of_json(tmp_path):
    """Values as text or as they are, as kcat writes them, or as reviews with names of their own."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(LINES))
    archive = Archive([str(path)], {"text": "body", "occurred_at": "when"})
    assert list(archive.read(0)) == [
        record(0, 3, b'{"a": 1}', timestamp=5),
        record(0, 4, b'{"a": 1}', None, 1551708306500),
        record(0, 5, None, timestamp=9),
        record(
            0,
            6,
            b'{"type":"review.upserted","entity_id":"e","review_id":"7","text":"Good."}',
            timestamp=-1,
        ),
        record(0, 7, b'{"type":"entity.deleted","entity_id":"e"}', b"k", -1),
    ]


@pytest.mark.parametrize(
    "table",
    [
        b"topic,partition,offset,key,value\nreviews,0,3,e,{}\n",
        b'"offset"\t"partition"\t"topic"\ttext\n3\t0\treviews\tGood.\n',
    ],
)
def test_a_table_of_text_is_refused_with_what_to_do(tmp_path, table):
    path = tmp_path / "a"
    path.write_bytes(table)
    says = "a looks like an archive of a topic as CSV or TSV.*Convert it first, with pyarrow"
    for read in (lambda: is_archive(str(path)), lambda: Archive([str(path)])):
        with pytest.raises(SetupError, match=says):
            read()


def test_reviews_in_parquet(tmp_path):
    """By the names of their fields; one that cannot be read is reported at its place."""
    table = pa.table(
        {
            "topic": [TOPIC] * 2,
            "partition": [0, 0],
            "offset": [3, 4],
            "timestamp": [5, 6],
            "asin": ["e", "e"],
            "review_id": [1, 2],
            "text": pa.Array.from_buffers(
                pa.string(), 2, pa.array([b"Good.", b"sch\xf6n"]).buffers()
            ),
            "occurred_at": ["03/04/2019", "2019-03-04"],
        }
    )
    path = str(tmp_path / "a")
    parquet.write_table(table, path)
    archive = Archive([path], {"entity_id": "asin"})
    event = b'{"type":"review.upserted","entity_id":"e","review_id":"1","text":"Good."}'
    assert list(archive.read(0)) == [
        record(0, 3, event, timestamp=5),
        Faulty(2, "bad_row", "0:4: text: a text is not UTF-8", path),
    ]


def test_rows_without_coordinates_are_told_and_end_nothing(tmp_path):
    table = pa.Table.from_pylist(
        rows(
            [
                record(0, 1),
                record(None, 2),
                record(0, None),
                record(-1, 3),
                record(0, 4, topic=None),
            ]
        ),
        schema=SCHEMA,
    )
    parquet.write_table(table, tmp_path / "a", row_group_size=2)
    lines = [
        b'{"topic":"reviews","partition":0,"offset":5,"value":""}',
        b"{",
        b'{"topic":"reviews","offset":-1}',
        b"[]",
    ]
    (tmp_path / "b").write_bytes(b"\n".join(lines))
    archive = Archive([str(tmp_path / name) for name in "ab"])
    assert [record.offset for record in archive.read(0)] == [1, 4, 5]
    assert {record.topic for record in archive.read(0)} == {TOPIC}
    assert [(Path(fault.file).name, fault.line, fault.reason) for fault in archive.faults()] == [
        *(("a", line, "bad_row") for line in (2, 3, 4)),
        *(("b", line, "bad_row") for line in (2, 3, 4)),
    ]


@pytest.mark.parametrize("column", ["partition", "offset", "timestamp"])
def test_a_number_of_too_many_digits_is_one_bad_row(tmp_path, column):
    row = {"topic": TOPIC, "partition": 0, "offset": 5, "timestamp": "2026-12-31", "value": "x"}
    big = "9" * 5000
    bad = json.dumps(row | {"offset": 6, column: big})
    if column != "timestamp":
        bad = bad.replace(f'"{big}"', big)
    (tmp_path / "a").write_text(f"{json.dumps(row)}\n{bad}\n")
    archive = Archive([str(tmp_path / "a")])
    assert [record.offset for record in archive.read(0)] == [5]
    (fault,) = archive.faults()
    assert (fault.line, fault.reason) == (2, "bad_row")
    assert len(fault.detail) < 200


def refused(paths):
    with pytest.raises(SetupError) as raised:
        everything(Archive([str(path) for path in paths]))
    return str(raised.value)


@pytest.mark.parametrize(
    "other", [record(0, 5, b"[]"), record(0, 5, key=None), record(0, 5, timestamp=8)]
)
def test_one_offset_with_two_records_is_refused(tmp_path, other):
    """Both files are named."""
    write_parquet(tmp_path / "a", [record(0, 4), record(0, 5), record(0, 6)])
    write_json(tmp_path / "b", [other], {})
    assert refused([tmp_path / "a", tmp_path / "b"]) == (
        f"offset 5 of partition 0 is in {tmp_path / 'a'} and in {tmp_path / 'b'}, and they are not "
        "the same record: "
        "one of the two is not of this topic"
    )


def test_two_topics_are_refused(tmp_path):
    write_parquet(tmp_path / "a", [record(0, 1)])
    write_parquet(tmp_path / "b", [record(1, 1), record(1, 2, topic="other")])
    write_json(tmp_path / "c", [record(0, 2, topic="other")], {})
    for path in "bc":
        assert refused([tmp_path / "a", tmp_path / path]) == (
            f"{tmp_path / path} has records of the topic other, before it came reviews: name the "
            "files of one topic"
        )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": ["t"], "partition": [0]}, "is not an archive of a topic: it has no offset"),
        ({"topic": ["t"], "partition": [0], "offset": [0]}, "say which is which: --fields "
                                                            "entity_id=COLUMN"),
        ({"topic": ["t"], "partition": [0], "offset": ["0"], "value": ["x"]}, "column offset is of "
                                                                              "type string; wanted "
                                                                              "are"),
        ({"topic": ["t"], "partition": [0], "offset": [0], "value": [1]}, "the column value is of "
                                                                          "type int64; wanted are "
                                                                          "bytes"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused(tmp_path, columns, message):
    parquet.write_table(pa.table(columns), tmp_path / "a")
    assert message in refused([tmp_path / "a"])


def test_lines_that_are_no_archive_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b'{"entity_id":"e","review_id":1,"text":"Good."}\n')
    assert refused([tmp_path / "a"]).endswith(
        "a is not an archive of a topic: it has no topic, partition, offset"
    )
    (tmp_path / "b").write_bytes(b"entity_id,review_id,text\n1,2,3\n")
    assert refused([tmp_path / "b"]).endswith(
        "b is not an archive of a topic: it has no topic, partition, offset"
    )


def test_it_is_told_from_files_of_reviews(tmp_path):
    write_parquet(tmp_path / "a", [record(0, 1)])
    (tmp_path / "b").write_bytes(LINES[0])
    (tmp_path / "c").write_bytes(b"{broken\n" + LINES[0])
    parquet.write_table(pa.table({"entity_id": ["e"]}), tmp_path / "e")
    (tmp_path / "f").write_bytes(b'{"entity_id":"e"}')
    (tmp_path / "g").write_bytes(b"entity_id,review_id,text\n1,2,3\n")
    assert [is_archive(str(tmp_path / name)) for name in "abcefg"] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_what_is_not_in_order_is_put_in_order_up_to_a_size(tmp_path, monkeypatch, kind):
    path = tmp_path / "a"
    WRITERS[kind](
        path, [record(0, offset, b"x" * 1000) for offset in (3, 1, 2)], {"compression": "none"}
    )
    assert [record.offset for record in Archive([str(path)]).read(0)] == [1, 2, 3]
    monkeypatch.setattr(archive_files, "MOST_SORTED_BYTES", 500)
    assert "is not in order of offsets, and too large to put it in order in memory" in refused(
        [path]
    )


def test_two_partitions_in_one_row_group_are_read_in_bounded_memory(tmp_path):
    """50 MB, in which they take turns."""
    path, count = tmp_path / "a", 100_000
    numbers = pa.array(range(count))
    table = pa.table(
        {
            "topic": pa.array([TOPIC] * count),
            "partition": pa.array([number % 2 for number in range(count)]),
            "offset": numbers,
            "value": pa.array([os.urandom(500) for _ in range(count)]),
        }
    )
    parquet.write_table(table, path, row_group_size=count, compression="none")
    assert path.stat().st_size > 5e7
    code = (
        "import resource, sys\n"
        "from worker.sources import Archive\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "records = Archive(sys.argv[1:]).read(1)\n"
        "next(records)\n"
        "before = peak()\n"
        "print(1 + sum(1 for _ in records), peak() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    found, grown = map(int, done.stdout.split())
    assert found == count // 2
    assert grown < 1.5e7
