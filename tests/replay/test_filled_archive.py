"""An archive with the records of its topic, over a log that a test gives (a real broker's:
tests/real_kafka/test_replay.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worker.events import Record
from worker.replay.filled_archive import FilledArchive, holes_of
from worker.replay.ranges import Range
from worker.replay.record_source import open_history

TOPIC = "reviews"


class Log:
    """Partition 0 of the topic: a record at each offset of a range."""

    topic = TOPIC

    def __init__(self, offsets: range) -> None:
        self.offsets = offsets

    def bounds(self, partition: int) -> range:
        assert partition == 0
        return self.offsets

    def read(self, partition: int, start: int) -> Any:
        assert start in self.offsets
        for offset in range(start, self.offsets.stop):
            record = Record(TOPIC, partition, offset, 0, b"key", b"from the log")
            yield SimpleNamespace(record=record)

    def __exit__(self, *_: object) -> None:
        pass


def filled(
    folder: Path, monkeypatch: pytest.MonkeyPatch, archived: list[int], log: range
) -> FilledArchive:
    """An archive of these offsets beside a log of those."""
    file = folder / "archive.jsonl"
    lines = [
        {"topic": TOPIC, "partition": 0, "offset": offset, "key": "key", "value": "from the file"}
        for offset in archived
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(FilledArchive, "_reader", lambda *_: Log(log))
    history: Any = open_history([str(file)], {})
    clients: Any = None
    return FilledArchive(history, clients, "group", {0: log.start})


@pytest.mark.parametrize(
    ("log", "first"),
    [(range(12), 0), (range(2, 12), 2), (range(4, 12), 4), (range(7, 12), 4), (range(12, 12), 4)],
    ids=["all of it", "a part", "none before", "not the gap", "nothing left"],
)
def test_what_an_archive_lacks_comes_from_its_log_also_before_its_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: range, first: int
) -> None:
    archived = [4, 5, 8]
    history = filled(tmp_path, monkeypatch, archived, log)
    assert history.partitions() == {0: range(first, 9)}
    wanted = [offset for offset in range(9) if offset in log or offset in archived]
    found = list(history.read(0, 0))
    assert [record.offset for record in found] == wanted
    assert [record.offset for record in found if record.value == b"from the file"] == archived
    assert [record.offset for record in history.read(0, 6)] == [o for o in wanted if o >= 6]
    lost = [offset for offset in range(first, 9) if offset not in wanted]
    missing = holes_of(history, {0: Range(first, 12, first)}).missing
    assert sum(one.offsets for one in missing.values()) == len(lost)
