"""An archive with the records of its topic, over a log that a test gives (a real broker's:
tests/real_kafka/test_replay.py).
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClients, FakeClock
from worker.errors import SetupError
from worker.events import Record
from worker.replay.archive_check import COMPARED, check_log, difference, holes_of
from worker.replay.ranges import Range
from worker.replay.record_source import Archived, open_history

TOPIC = "reviews"
UNSET: Any = object()
"""A member that the rows of an archive do not have."""


class Log:
    """Partition 0 of the topic: a record at each offset of a range, less those `without`."""

    topic = TOPIC

    def __init__(self, offsets: range, value: bytes, without: Container[int] = ()) -> None:
        self.offsets, self.value, self.without = offsets, value, without
        self.places: list[int] = []

    def bounds(self, partition: int) -> range:
        assert partition == 0
        return self.offsets

    def read(self, partition: int, start: int, end: int | None = None) -> Any:
        assert start in self.offsets
        self.places.append(start)
        for offset in range(start, self.offsets.stop if end is None else end):
            if offset not in self.without:
                record = Record(TOPIC, partition, offset, 7000, b"key", self.value)
                yield SimpleNamespace(record=record)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_watermark_offsets(self, asked: Any, timeout: float) -> tuple[int, int]:
        return self.offsets.start, self.offsets.stop

    def close(self) -> None:
        pass


def filled(folder: Path, archived: Iterable[int], log: Log, **changes: Any) -> Archived:
    """An archive of these offsets, its rows with `changes`, beside a log."""
    file = folder / "archive.jsonl"
    lines = [
        {"topic": TOPIC, "partition": 0, "offset": offset, "key": "key", "value": "from the file"}
        | changes
        for offset in archived
    ]
    lines = [{name: value for name, value in line.items() if value is not UNSET} for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    history: Any = open_history([str(file)], {})
    return replace(history, filled_from={0: log.offsets.start}, open_log=lambda _: log)


def check(history: Archived, **options: Any) -> None:
    log: Any = history.open_log(0)
    check_log(history, FakeClients(consumer=lambda: log), "group", **options)


@pytest.mark.parametrize(
    ("log", "first"),
    [(range(12), 0), (range(2, 12), 2), (range(4, 12), 4), (range(7, 12), 4), (range(12, 12), 4)],
    ids=["all of it", "a part", "none before", "not the gap", "nothing left"],
)
def test_what_an_archive_lacks_comes_from_its_log_also_before_its_first_record(
    tmp_path: Path, log: range, first: int
) -> None:
    archived = [4, 5, 8]
    history = filled(tmp_path, archived, Log(log, b"from the log"))
    assert history.partitions() == {0: range(first, 9)}
    wanted = [offset for offset in range(9) if offset in log or offset in archived]
    found = list(history.read(0, 0))
    assert [record.offset for record in found] == wanted
    assert [record.offset for record in found if record.value == b"from the file"] == archived
    assert [record.offset for record in history.read(0, 6)] == [o for o in wanted if o >= 6]
    lost = [offset for offset in range(first, 9) if offset not in wanted]
    missing = holes_of(history, {0: Range(first, 12, first)}).missing
    assert sum(span.offsets for span in missing.values()) == len(lost)


def test_one_offset_that_the_files_lack_is_a_hole(tmp_path: Path) -> None:
    history = filled(tmp_path, [0, 1, 3, 4], Log(range(5, 9), b"from the log"))
    (missing,) = holes_of(history, {0: Range(0, 9, 0)}).missing.values()
    assert missing.first == ["2"]


REVIEW = b'{"review_id": "r1", "entity_id": "key", "rating": 5}'


@pytest.mark.parametrize(
    "row",
    [
        {"value": REVIEW.decode(), "timestamp": 7000},
        {"value": json.loads(REVIEW), "timestamp": "1970-01-01T00:00:07Z"},
        {"value": REVIEW.decode().replace("5", "5.0"), "key": None},
        {"value": UNSET, "key": UNSET, "entity_id": "key", "review_id": "r1", "rating": "5"},
    ],
    ids=["as stored", "as an object", "without key and timestamp", "in columns"],
)
@pytest.mark.parametrize(
    "log", [range(500), range(200, 900), range(300, 900)], ids=["all", "a part", "none"]
)
def test_an_archive_of_the_topic_is_accepted(
    tmp_path: Path, row: dict[str, Any], log: range
) -> None:
    row = {"key": "key", **row}
    topic = Log(log, REVIEW, without=range(250, 260))  # compacted, or markers of transactions
    check(filled(tmp_path, range(300), topic, **row))
    assert (len(topic.places) > 5) == (log.start < 300)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"timestamp": 7001}, "timestamp 7001, in the topic 7000"),
        ({"key": "e2"}, "key 'e2', in the topic 'key'"),
        ({"value": "plain"}, "value 'plain', in the topic"),
        ({"value": None}, "value none, in the topic"),
        ({"value": REVIEW.decode().replace("r1", "r2")}, "value '{.*r2.*in the topic '{.*r1"),
        ({"value": {"rating": 5, "text": "no", "review_id": "r2"}}, "value '{.*r2"),
        ({"value": UNSET, "entity_id": "key", "review_id": "r2", "text": "no"}, "value '{.*r2"),
    ],
)
@pytest.mark.parametrize("log", [range(500), range(299, 900)], ids=["all", "last record"])
def test_an_archive_of_a_topic_before_this_one_is_refused(
    tmp_path: Path, log: range, row: dict[str, Any], what: str
) -> None:
    row = {"key": "key", "value": REVIEW.decode(), **row}
    history = filled(tmp_path, range(300), Log(log, REVIEW), **row)
    says = rf"reviews-0: at offset {log.start} .*archive.jsonl has another record .*\({what}"
    with pytest.raises(SetupError, match=says):
        check(history)
    check(history, only=[1])


def test_a_log_that_ends_below_the_archive_is_refused(tmp_path: Path) -> None:
    clock = FakeClock()
    for log in (range(299), range(0)):
        history = filled(tmp_path, range(300), Log(log, b"from the file"))
        with pytest.raises(
            SetupError,
            match=rf"reviews-0 ends at offset {log.stop}, and .*archive.jsonl has offset 299",
        ):
            check(history, clock=clock)
    check(filled(tmp_path, range(300), Log(range(300), b"from the file")))


def test_no_more_records_are_compared_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file of an archive counts; the first and the last offset are among them."""
    log = Log(range(500), REVIEW)
    history = filled(tmp_path, range(500), log, value=REVIEW.decode())
    ends = set(range(0, 500, 3))
    monkeypatch.setattr("worker.sources.archive.Archive.ends", lambda *_: ends)
    check(history)
    assert len(log.places) == COMPARED
    assert (log.places[0], log.places[-1]) == (0, 498)


@pytest.mark.parametrize(
    ("archived", "stored", "differs"),
    [
        (b'{"at":"2019-03-04T14:05:06Z"}', b'{"at":"2019-03-04 14:05:06.000"}', False),
        (b'{"at":"2019-03-04"}', b'{"at":"2019-03-05"}', True),
        (b'{"review_id":"r1"}', b"\0\0\0\0\1r1", False),  # Avro written as JSON
        (b'{"a":1}', b'{"b":1}', True),
        (b'{"after":{"id":1}}', b'{"after":null}', True),
        (b'{"v":["a"]}', b'{"v":["a","b"]}', True),
        (b'{"v":[0.1]}', b'{"v":[0.10000000149]}', False),
        (b'{"a":"x"}', b'{"a":"\xff"}', False),  # not UTF-8, so not JSON
        (b"plain", b'{"a":"\xff"}', True),
        (b'{"v":"AAAA"}', b'{"v":[0.1]}', False),
        (b"5", b"6", True),
        (b"e1", b'"e1"', False),
        (b"\xff", b"\xfe", True),
    ],
)
def test_values_differ_unless_an_archiver_may_have_converted_one(
    archived: bytes, stored: bytes, differs: bool
) -> None:
    record = Record(TOPIC, 0, 0, 0, None, archived)
    assert bool(difference(record, record._replace(value=stored))) is differs
    assert (
        bool(
            difference(
                record._replace(key=archived, value=b""), record._replace(key=stored, value=b"")
            )
        )
        is differs
    )
