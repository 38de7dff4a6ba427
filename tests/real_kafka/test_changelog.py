"""Restore and standby against a real broker's transactions: what is read, and when a restore may
end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.long import one_of
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.stream import Parts
from tests.harness.topics import producer
from worker.errors import Crash, Unanswered
from worker.kafka import changelog as module
from worker.kafka.changelog import ChangelogLog, ChangelogReader
from worker.kafka.clients import KafkaClients
from worker.kafka.group import Membership
from worker.kafka.topics import DELETE_RETENTION_MS
from worker.settings import Settings
from worker.state import Changes
from worker.stream.gate import OFFSET_KEY

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

DAY_MS = 24 * 3600 * 1000


class Changelog:
    """A changelog topic of one partition, its writers, and a reader's copy of it."""

    def __init__(self, broker: KafkaBroker, name: str, cleanup: str = "compact") -> None:
        self.broker, self.topic = broker, name
        broker.create_topic(name, 1, {"cleanup.policy": cleanup})
        self.clients = KafkaClients(Settings(bootstrap_servers=broker.bootstrap_servers))
        self.life_ms: int | None = DELETE_RETENTION_MS
        self.config = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        self.rows: dict[bytes, bytes] = {}
        # (expected predecessor, last offset) of each atomic batch
        self.applied: list[tuple[int, int]] = []
        self.progress: list[tuple[int, int]] = []
        self.at_end: Callable[[], None] = lambda: None

    def begin(self, writer: str, **rows: str | None) -> Producer:
        """An open transaction with these rows on the broker."""
        made = Producer({**self.config, "transactional.id": f"{self.topic}-{writer}"})
        made.init_transactions(PATIENCE_SECONDS)
        made.begin_transaction()
        for key, value in rows.items():
            made.produce(self.topic, None if value is None else value.encode(), key.encode(), 0)
        assert made.flush(PATIENCE_SECONDS) == 0
        return made

    def commit(self, writer: str, **rows: str | None) -> None:
        self.begin(writer, **rows).commit_transaction(PATIENCE_SECONDS)

    def abort(self, writer: str, **rows: str | None) -> None:
        self.begin(writer, **rows).abort_transaction(PATIENCE_SECONDS)

    def age(self, *days: int) -> None:
        """A row for each, so old."""
        writer, now_ms = producer(self.broker.bootstrap_servers), int(time.time() * 1000)
        for old in days:
            writer.produce(self.topic, b"v", b"k%d" % old, 0, timestamp=now_ms - old * DAY_MS)
            assert writer.flush(PATIENCE_SECONDS) == 0

    def bounds(self) -> tuple[int, int, int]:
        """Start, end and horizon."""
        ids: Any = SimpleNamespace(tombstone_life_ms=lambda topic: self.life_ms)
        return ChangelogLog(self.clients, self.topic, "tests", ids).bounds([0])[0]

    def reader(self, start: int = 0) -> ChangelogReader:
        return ChangelogReader(
            self.clients, "tests", self.topic, {0: start}, self._apply, lambda _: self.at_end()
        )

    def _apply(self, partition: int, first: int, changes: Changes, last: int) -> None:
        assert partition == 0
        self.applied.append((first, last))
        for key, value in changes.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def restore(self, start: int = 0) -> int:
        """A whole restore, as at a takeover; the number of rows read."""
        goal = self.bounds()[1]
        return self.reader(start).restore({0: goal}, lambda *numbers: self.progress.append(numbers))


@pytest.fixture
def changelog(kafka: KafkaBroker, request: pytest.FixtureRequest) -> Changelog:
    return Changelog(kafka, "".join(c if c.isalnum() else "-" for c in request.node.name))


class Running:
    """Something in a thread of its own, and what it ended with."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            self.error = error

    def ends(self, seconds: float = PATIENCE_SECONDS) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()


# -- restore ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", one_of(["commit", "abort"]))
def test_a_restore_waits_for_transactions_that_are_open_when_it_begins(
    changelog: Changelog, outcome: str
) -> None:
    """The predecessor's last transaction may be undecided still: its rows belong to offsets that
    may be committed.
    """
    changelog.commit("one", a="1", b="1")
    changelog.abort("two", a="aborted", x="aborted")
    open_transaction = changelog.begin("three", a="3", c="3")
    changelog.commit("four", b="4")
    restore = Running(changelog.restore)
    eventually(lambda: changelog.rows == {b"a": b"1", b"b": b"1"})
    assert not restore.ends(1.0), "it ended before the open transaction was decided"
    assert changelog.rows == {b"a": b"1", b"b": b"1"}
    if outcome == "commit":
        open_transaction.commit_transaction(PATIENCE_SECONDS)
    else:
        open_transaction.abort_transaction(PATIENCE_SECONDS)
    assert restore.ends()
    assert restore.error is None
    if outcome == "commit":
        assert changelog.rows == {b"a": b"3", b"b": b"4", b"c": b"3"}
    else:
        assert changelog.rows == {b"a": b"1", b"b": b"4"}


def test_the_goal_is_what_an_uncommitted_reader_sees(changelog: Changelog) -> None:
    """The end for a committed reader lies before the open transaction, and a restore up to it would
    miss its rows.
    """
    changelog.commit("one", a="1")
    pending = changelog.begin("two", b="2")
    assert changelog.bounds()[:2] == (0, 3)
    pending.abort_transaction(PATIENCE_SECONDS)


def test_a_restore_ends_behind_trailing_markers_and_aborted_rows(changelog: Changelog) -> None:
    """No row is at the goal's edge: only the position gets there."""
    changelog.commit("one", a="1")
    changelog.abort("two", **{f"row{i}": "x" for i in range(50)})
    assert changelog.restore() == 1
    assert changelog.rows == {b"a": b"1"}
    assert changelog.progress[-1] == (1, 0)


def test_a_restore_of_aborted_rows_alone_ends(changelog: Changelog) -> None:
    changelog.abort("one", a="x")
    assert changelog.restore() == 0
    assert changelog.rows == {}


def test_a_restore_of_an_empty_log_ends_at_once(changelog: Changelog) -> None:
    started = time.monotonic()
    assert changelog.restore() == 0
    assert time.monotonic() - started < module.STALLED_SECONDS / 2


def test_a_restore_applies_removals_in_order_and_goes_on_after_the_stored_offset(
    changelog: Changelog,
) -> None:
    changelog.commit("one", a="1", b="1")
    changelog.commit("two", a=None)
    assert changelog.restore() == 3
    assert changelog.rows == {b"b": b"1"}
    last = changelog.applied[-1][1]
    changelog.commit("three", c="3")
    assert changelog.restore(start=last + 1) == 1
    assert changelog.rows == {b"b": b"1", b"c": b"3"}


def test_many_rows_are_applied_in_batches_that_follow_each_other(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_BATCH", 100)
    changelog.commit("one", **{f"row{i:04}": str(i) for i in range(1000)})
    assert changelog.restore() == 1000
    assert changelog.rows == {b"row%04d" % i: str(i).encode() for i in range(1000)}
    assert len(changelog.applied) >= 10
    assert all(
        first > last
        for (_, last), (first, _) in zip(changelog.applied, changelog.applied[1:], strict=False)
    )


def test_a_restore_that_stands_still_may_be_begun_again(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALLED_SECONDS", 1.0)
    changelog.commit("one", a="1")
    pending = changelog.begin("two", b="2")
    with pytest.raises(Unanswered, match="makes no progress"):
        changelog.restore()
    pending.abort_transaction(PATIENCE_SECONDS)
    assert changelog.restore(1) == 0


def test_a_restore_can_be_stopped(changelog: Changelog) -> None:
    pending = changelog.begin("one", a="1")
    reader = changelog.reader()
    restore = Running(lambda: reader.restore({0: changelog.bounds()[1]}, lambda *_: None))
    assert not restore.ends(0.5)
    reader.stop()
    assert restore.ends()
    assert restore.error is None
    assert reader.stopped
    pending.abort_transaction(PATIENCE_SECONDS)


def test_an_offset_outside_the_log_is_an_error_and_no_reset(changelog: Changelog) -> None:
    changelog.commit("one", a="1")
    with pytest.raises(KafkaException):
        changelog.reader(start=500).restore({0: 1000}, lambda *_: None)
    assert changelog.rows == {}


def test_a_record_without_a_key_is_none_of_the_workers_rows(kafka: KafkaBroker) -> None:
    # a compacted topic takes none
    changelog = Changelog(kafka, "changelog-without-key", cleanup="delete")
    writer = producer(kafka.bootstrap_servers)
    writer.produce(changelog.topic, b"value", None, 0)
    assert writer.flush(PATIENCE_SECONDS) == 0
    with pytest.raises(Crash, match="without a key at 0"):
        changelog.restore()


# -- bounds ----------------------------------------------------------------------------------------


def test_the_horizon_is_the_first_offset_younger_than_the_tombstones_life(
    changelog: Changelog,
) -> None:
    life_days = DELETE_RETENTION_MS // DAY_MS
    changelog.age(life_days + 10)
    assert changelog.bounds() == (0, 1, 1)  # no row is: the end
    changelog.age(life_days + 5, life_days - 1, 0)
    assert changelog.bounds() == (0, 4, 2)


@pytest.mark.parametrize(("life_days", "horizon"), one_of([(2, 2), (0.01, 3), (365, 0)]))
def test_a_changelog_that_was_made_with_less_life_for_its_tombstones_has_a_later_horizon(
    kafka: KafkaBroker, life_days: float, horizon: int
) -> None:
    changelog = Changelog(kafka, f"changelog-life-{life_days}")
    changelog.life_ms = int(life_days * DAY_MS)
    changelog.age(20, 5, 1)
    assert changelog.bounds() == (0, 3, horizon)


def test_the_horizon_of_a_young_log_is_its_start(changelog: Changelog) -> None:
    changelog.age(1, 0)
    assert changelog.bounds() == (0, 2, 0)


def test_the_start_of_a_log_that_was_cut_is_seen(kafka: KafkaBroker) -> None:
    # a compacted one cannot be cut
    changelog = Changelog(kafka, "changelog-cut", cleanup="compact,delete")
    changelog.age(0, 0, 0, 0)
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(changelog.topic, 0, 3)]).values():
        future.result(PATIENCE_SECONDS)
    assert changelog.bounds()[:2] == (3, 4)


# -- standby ---------------------------------------------------------------------------------------


def test_a_standby_follows_what_is_committed_and_nothing_else(changelog: Changelog) -> None:
    reader = changelog.reader()
    follower = Running(reader.follow)
    changelog.commit("one", a="1")
    eventually(lambda: changelog.rows == {b"a": b"1"})
    pending = changelog.begin("two", a="2")
    changelog.abort("three", a="aborted")
    time.sleep(0.5)
    assert changelog.rows == {b"a": b"1"}
    pending.commit_transaction(PATIENCE_SECONDS)
    eventually(lambda: changelog.rows == {b"a": b"2"})
    assert follower.thread.is_alive()
    reader.stop()
    assert follower.ends()
    assert follower.error is None


def test_a_standby_is_at_the_end_once_it_has_whole_transactions(
    changelog: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that ends amid a transaction is no end."""
    monkeypatch.setattr(module, "ROWS_PER_BATCH", 10)
    reader = changelog.reader()
    rows_at_end: list[int] = []
    changelog.at_end = lambda: rows_at_end.append(len(changelog.rows))
    changelog.commit("one", **{f"row{i:04}": "1" for i in range(95)})
    follower = Running(reader.follow)
    eventually(lambda: 95 in rows_at_end)
    changelog.commit("two", **{f"row{i:04}": "1" for i in range(95, 190)})
    eventually(lambda: 190 in rows_at_end)
    reader.stop()
    assert follower.ends()
    assert set(rows_at_end) == {95, 190}


def test_a_restored_log_goes_into_rocksdb_with_its_offsets(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Gate, reader and broker together: a second restore begins behind the first and finds it
    whole.
    """
    changelog = Changelog(kafka, "tests-entities-changelog")
    parts = Parts(tmp_path)
    ids: Any = parts.logs.ids
    parts.takeover.logs.changelog = ChangelogLog(changelog.clients, changelog.topic, "tests", ids)
    changelog.commit("one", a="1", b="1")
    changelog.commit("two", b=None, c="2")
    parts.assignment.assign(Membership(1, "member"), frozenset({0}))
    parts.assignment.begin({0}, set())
    assert parts.takeover._restore(parts.assignment.epoch, [0])
    assert dict(parts.databases.rows(0).scan(b"")) == {b"a": b"1", b"c": b"2", OFFSET_KEY: b"4"}
    changelog.commit("three", d="3")
    assert parts.takeover._restore(parts.assignment.epoch, [0])
    assert parts.databases.rows(0).get(b"d") == b"3"
    assert parts.gate.stored_offset(0) == 6
    parts.databases.close()
