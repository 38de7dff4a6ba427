"""`summarize` and `send` of several files, patterns and folders: as if all were one, each line
named by its file.
"""

import bz2
import json
import lzma
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.cli.events import lines, sample
from tests.harness.topics import read_topic
from worker.events import read_line

TOPIC = "marketplace.reviews.v1"


@pytest.fixture
def events():
    """Reviews of three stays; one of them is deleted in the end."""
    written = [
        {**event, "entity_id": f"stay {number % 3}"} for number, event in enumerate(sample(60))
    ]
    return [*written, {"type": "entity.deleted", "entity_id": "stay 1"}]


@pytest.fixture
def folder(tmp_path, monkeypatch, events):
    """The same events in files of several formats, in order of their names."""
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    packed = b"\n".join(lines(events[:20]))
    Path("parts/1.jsonl.bz2").write_bytes(bz2.compress(packed[:1000]) + bz2.compress(packed[1000:]))
    parquet.write_table(pa.Table.from_pylist(events[20:45]), "parts/2.parquet", row_group_size=10)
    Path("parts/3.jsonl.xz").write_bytes(lzma.compress(b"\n".join(lines(events[45:])) + b"\n"))
    Path("parts/README.md").write_text("What this is.")
    return Path("parts")


def bodies(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    "named", [["parts/"], ["parts/*[0-9]*"], ["parts/1.jsonl.bz2", "parts/[23].*"]], ids=" ".join
)
def test_several_files_are_summarized_as_one_would_be(run, write, folder, events, named):
    whole = bodies(run("summarize", write("whole.jsonl", lines(events)), "-k", "4").out)
    ended = run("summarize", *named, "-k", "4")
    assert ended.code == 0
    topics = ["1.jsonl.bz2"] * 20 + ["2.parquet"] * 25 + ["3.jsonl.xz"] * 16
    for body in whole:
        body["cause"]["topic"] = topics[body["sequence"]]
    assert bodies(ended.out) == whole
    assert len({body["cause"]["topic"] for body in whole}) == 3
    printed = ended.err.splitlines()
    passed_over = (
        ["skipped, no reviews by their names: parts/README.md"] if named == ["parts/"] else []
    )
    assert printed[:-1] == passed_over
    assert printed[-1].startswith("61 lines, 3 entities, ")


def test_a_file_that_cannot_be_read_is_known_before_anything_is_written(run, folder):
    (folder / "4.csv").write_text("asin,id,body\n1,2,3\n")
    ended = run("summarize", "parts")
    assert (ended.code, ended.out) == (2, "")
    assert "parts/4.csv looks like a table with the columns asin, id, body" in ended.err
    (folder / "4.csv").unlink()
    (folder / "5").write_text("Dear reader,\n")
    assert "parts/5 looks like plain text" in run("summarize", "parts").err


def test_no_file_and_one_twice(run, folder):
    for named, message in (
        (["none/*.csv"], "none/*.csv matches no file"),
        (["parts", "parts/2.parquet"], "parts/2.parquet is named twice: name each file once"),
        (["parts", "-o", "parts/2.parquet"], "parts/2.parquet is an input file"),
    ):
        ended = run("summarize", *named)
        assert (ended.code, ended.out) == (2, "")
        assert message in ended.err


@pytest.fixture
def broker(embedded_broker, monkeypatch):
    embedded_broker.create_topic(TOPIC, 1)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", embedded_broker.bootstrap_servers)
    return embedded_broker


def arrived(broker):
    return [(message.key, message.value) for message in read_topic(broker.bootstrap_servers, TOPIC)]


def sent(events):
    """As `json` has them: what comes from Parquet is written in another way."""
    return [(event["entity_id"].encode(), event) for event in events]


def test_a_folder_is_sent_in_order(run, broker, folder, events):
    ended = run("send", "parts")
    assert ended.code == 0
    assert json.loads(ended.out)["sent"] == len(events)
    found = [(key, json.loads(value)) for key, value in arrived(broker)]
    assert found == sent(events)


def test_from_a_line_of_a_file_on(run, broker, folder, events):
    """Those before it are not even looked at."""
    (folder / "1.jsonl.bz2").write_text("Dear reader,\n")
    for line, first in (
        ("parts/2.parquet:4", 23),
        ("./parts/2.parquet:26", 45),
        ("parts/3.jsonl.xz:16", 60),
    ):
        before = len(arrived(broker))
        assert run("send", "parts", "--from-line", line).code == 0
        found = [(key, json.loads(value)) for key, value in arrived(broker)[before:]]
        assert found == sent(events[first:])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7", "--from-line 7: there are 3 files: name one, as in parts/1.jsonl.bz2:7"),
        ("4.csv:7", "--from-line: 4.csv is not among the files that are named"),
        ("parts/2.parquet:27", "--from-line parts/2.parquet:27: there are only 25 rows"),
        ("parts/3.jsonl.xz:18", "--from-line parts/3.jsonl.xz:18: there are only 16 lines"),
        ("parts/2.parquet:0", "'parts/2.parquet:0' is not a line, counted from 1"),
        ("x", "'x' is not a line, counted from 1, as in 48213 or reviews.jsonl:48213"),
    ],
)
def test_a_line_that_is_none(run, broker, folder, line, message):
    ended = run("send", "parts", "--from-line", line)
    assert ended.code == 2
    assert message in ended.err
    assert arrived(broker) == []


def test_standard_input_between_files(write, broker, folder):
    content = [b'{"entity_id":"e","review_id":1,"text":"Good."}'] * 2
    write("first.jsonl", content)
    write("last.jsonl", content)
    command = [sys.executable, "-m", "worker", "send", "first.jsonl", "-", "last.jsonl"]
    done = subprocess.run(
        command, input=b"\n".join([*content, b"{"]), capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"-:3: bad_json: ")
    done = subprocess.run(
        [*command, "--skip-bad"], input=b"\n".join(content), capture_output=True, check=True
    )
    assert json.loads(done.stdout)["sent"] == 6
    assert arrived(broker) == [read_line(content[0])] * 6
