"""Damage: to rows, files, disks and topics. A worker stops and says what to do, or mends itself; it
never goes on wrong.

Each of these ends with the verifier, over everything that was published and every local copy:
nothing lost, repeated or wrong, whatever was damaged in between. `make test` has one of each sort,
`make faults` all of them, and damage under load.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.damage import (
    DAMAGES,
    Disk,
    all_rows,
    cut,
    databases,
    delete_records,
    delete_topic,
    flip,
    flip_rows,
    log_sizes,
    make_anew,
    may_mount,
    published,
    reset,
    run_as_root_of_a_namespace,
    write_rows,
)
from tests.harness.eventually import eventually
from tests.harness.faults import Fault
from tests.harness.load import Sent, send
from tests.harness.patience import PATIENCE_SECONDS, TEST_SECONDS
from tests.harness.record import Recorder
from tests.harness.scenario import under_faults
from tests.harness.site import Site
from tests.harness.small_load import DIMENSION, SETTINGS, events, feed, upsert
from tests.harness.topics import read_topic
from tests.harness.workers import Pipeline, WorkerProcess, pipeline, run_command
from worker.state import rows as formats
from worker.state.keys import APPLIED, OUTPUT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(TEST_SECONDS)]

LOAD = events(110, seed=3)
FIRST, SECOND = LOAD[:120], LOAD[120:]


@pytest.fixture
def site(kafka: KafkaBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    """A pipeline of the test's own name, two partitions, not started."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    with pipeline(kafka, name, tmp_path, partitions=2, settings=SETTINGS) as made:
        yield made


def stopped(site: Pipeline, load: list[Sent] = FIRST, **settings: str) -> WorkerProcess:
    """A worker that has processed a load and was stopped."""
    worker = site.worker(**settings).start()
    worker.wait_ready()
    feed(site, load)
    site.wait_caught_up()
    assert worker.terminate() == 0
    return worker


def killed(site: Pipeline) -> WorkerProcess:
    """One with table files and a log with writes in every database, as `kill -9` leaves them."""
    worker = site.worker()
    for load in (FIRST[:60], FIRST[60:]):
        worker.start().wait_ready()  # what is in the log at an opening goes into a table file
        feed(site, load)
        site.wait_caught_up()
        worker.kill()
    for folder in databases(worker):
        assert list(folder.glob("*.sst"))
        assert any(log.stat().st_size for log in folder.glob("*.log"))
    return worker


def goes_on(
    site: Pipeline, worker: WorkerProcess, *, is_reset: bool = False, broken_history: bool = False
) -> dict[str, Any]:
    """Started again, or first reset, it processes the rest, and everything was right all the time;
    the verifier's report.

    With a `broken_history` the changelog no longer has all that was ever committed: only its end is
    compared.
    """
    if is_reset:
        reset(worker, "--local")
    if not worker.alive:
        worker.start()
    worker.wait_ready()
    feed(site, SECOND)
    site.wait_caught_up()
    site.stop()
    report = site.verify(compacted=broken_history)
    site.verify_state()
    return report


def same_again(worker: WorkerProcess, live: dict[tuple[str, bytes], bytes]) -> None:
    """I8, in place: started and stopped, it has the rows that it had."""
    worker.start().wait_ready()
    assert worker.terminate() == 0
    assert all_rows(worker) == live


# -- topics created again --------------------------------------------------------------------------


@pytest.mark.long
def test_an_input_topic_created_again_with_a_longer_log_is_refused(site: Pipeline) -> None:
    """Every offset fits: the id alone tells. Then `reset`, and the new topic is read from its
    start.
    """
    worker = stopped(site)
    before, targets = published(site), site.targets()
    make_anew(site, site.input_topic)
    feed(site, events(200, seed=4))
    assert all(end > targets[partition] for partition, end in site.targets().items())
    site.set_offsets(targets)
    worker.refused_again("created again", site.input_topic, "coversumm-worker reset")
    assert published(site) == before
    make_anew(site, site.output_topic, {"cleanup.policy": "compact"})
    make_anew(site, site.dlq_topic)
    reset(worker)
    assert goes_on(site, worker, broken_history=True)["records"] > 200


@pytest.mark.long
def test_an_output_topic_created_again_is_refused(site: Pipeline) -> None:
    """Entities that do not change again would be missing from it. Published again, all
    are there.
    """
    worker = stopped(site)
    committed = site.targets()
    make_anew(site, site.output_topic, {"cleanup.policy": "compact"})
    feed(site, SECOND[:1])
    worker.refused_again("created again", site.output_topic, "coversumm-worker reset")
    assert not any(published(site)[site.output_topic].values())
    assert site.lag(committed) == 0
    assert site.lag(site.targets()) > 0
    make_anew(site, site.dlq_topic)
    reset(worker)
    goes_on(site, worker, broken_history=True)


@pytest.mark.long
def test_another_output_topic_is_the_operators_decision(site: Pipeline) -> None:
    worker, other = stopped(site), f"{site.output_topic}.other"
    site.broker.create_topic(other, site.partitions, {"cleanup.policy": "compact"})
    worker.environment["COVERSUMM_OUTPUT_TOPIC"] = other
    worker.start().wait_ready()
    feed(site, SECOND)
    site.wait_caught_up()
    assert worker.terminate() == 0
    assert (
        f"published to {site.output_topic} before; from here on only those that change are "
        f"published to {other}" in worker.log_text()
    )
    written = [value for (_, key), value in all_rows(worker).items() if key == OUTPUT]
    assert {formats.decode_output(OUTPUT, value).topic for value in written} == {other}


def test_a_changelog_created_again_is_read_from_its_start(site: Pipeline) -> None:
    """Its log is longer than the stored offset, and what lies below that is not what was
    applied.
    """
    worker = stopped(site)
    live = all_rows(worker)
    records = read_topic(site.broker.bootstrap_servers, site.changelog_topic)
    make_anew(site, site.changelog_topic, {"cleanup.policy": "compact"})
    foreign = [record._replace(key=b"E\0\0\0\1x", value=b"gone before long") for record in records]
    write_rows(site, foreign, site.changelog_topic)
    write_rows(site, [record._replace(value=None) for record in foreign], site.changelog_topic)
    write_rows(site, records, site.changelog_topic)
    worker.start().wait_ready()
    assert worker.terminate() == 0
    assert worker.log_text().count("rebuilding it") == site.partitions
    assert worker.restored_rows()[-1] >= len(records)
    assert all_rows(worker) == live


@pytest.mark.faults
def test_an_empty_changelog_created_again_is_refused(site: Pipeline) -> None:
    worker = stopped(site)
    before = published(site)
    make_anew(site, site.changelog_topic, {"cleanup.policy": "compact"})
    worker.refused_again("the state ends at 0", site.changelog_topic, "coversumm-worker reset")
    assert published(site) == before


@pytest.mark.faults
def test_a_changelog_without_its_beginning_is_refused(site: Pipeline) -> None:
    """The applied offset is there and right, most rows are not."""
    worker = stopped(site)
    worker.wipe()
    ends = {p: end // 2 for p, end in log_sizes(site, site.changelog_topic).items()}
    _set_policy(site, site.changelog_topic, "compact,delete")
    delete_records(site, site.changelog_topic, ends)
    _set_policy(site, site.changelog_topic, "compact")
    worker.refused_again("fingerprint", "coversumm-worker reset")


def _set_policy(site: Pipeline, topic: str, policy: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = site.broker.admin()  # its futures fail once it is collected
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)


# -- formats ---------------------------------------------------------------------------------------


def _rewrite_applied(site: Pipeline, version: int) -> None:
    """Write the applied rows again as a worker of a newer version would."""
    latest = {
        record.partition: record
        for record in read_topic(site.broker.bootstrap_servers, site.changelog_topic)
        if record.key == APPLIED
    }
    rewritten = []
    for record in latest.values():
        assert record.value is not None
        applied = formats.decode_applied(APPLIED, record.value)
        payload = applied.next_offset.to_bytes(8, "little") + applied.topic.encode()
        rewritten.append(record._replace(value=formats.seal(APPLIED, payload, version)))
    write_rows(site, rewritten, site.changelog_topic)


@pytest.mark.faults
def test_state_of_a_newer_format_is_refused(site: Pipeline) -> None:
    worker = stopped(site)
    _rewrite_applied(site, 4)
    advice = "run the version of the worker that wrote it"
    worker.refused_again("applied offset", "format 4", advice)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.faults
@pytest.mark.parametrize("kind", [b"applied offset", b"fingerprint"])
def test_a_corrupt_row_of_the_partition_is_refused_at_the_start(
    site: Pipeline, kind: bytes
) -> None:
    worker = stopped(site)
    before = published(site)
    (name,) = flip_rows(databases(worker)[0], kind)
    worker.refused_again(f"corrupt state row ({name})", "coversumm-worker reset --local")
    assert published(site) == before
    goes_on(site, worker, is_reset=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        b"header",
        *(
            pytest.param(kind, marks=pytest.mark.faults)
            for kind in (b"published set", b"review", b"vectors")
        ),
    ],
)
def test_a_corrupt_row_met_in_the_middle_ends_the_worker_before_it_publishes(
    site: Pipeline, kind: bytes
) -> None:
    """Every row of the kind is flipped: the first event that needs one is the last that is looked
    at.
    """
    worker = stopped(site)
    before = published(site)
    names = set().union(*(flip_rows(folder, kind) for folder in databases(worker)))
    verified = run_command("verify", environment=worker.environment)
    assert verified.returncode == 1, verified.stderr
    assert any(f"corrupt state row ({name})" in verified.stdout for name in names), verified.stdout
    worker.log_path.unlink()
    worker.start().wait_ready()
    feed(site, [event for event in FIRST if event.value])  # every entity again: each must be read
    line = worker.refused("corrupt state row", "coversumm-worker reset --local")
    assert any(name in line for name in names), line
    assert published(site) == before
    goes_on(site, worker, is_reset=True)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_manifest_that_lost_its_end_is_refused(site: Pipeline) -> None:
    """RocksDB opens it and says nothing: rows would be missing under the newest offset."""
    worker = killed(site)
    folder = databases(worker)[0]
    cut(next(folder.glob("MANIFEST-*")), 0.5)
    worker.refused_again(str(folder), "manifest", "coversumm-worker reset --local")
    goes_on(site, worker, is_reset=True)


@pytest.mark.faults
def test_a_lost_table_file_is_refused(site: Pipeline) -> None:
    worker = killed(site)
    folder = databases(worker)[-1]
    sorted(folder.glob("*.sst"))[0].unlink()
    worker.refused_again(str(folder), "coversumm-worker reset --local")
    goes_on(site, worker, is_reset=True)


@pytest.mark.faults
def test_a_flipped_table_file_ends_the_worker_when_it_is_read(site: Pipeline) -> None:
    worker = killed(site)
    before = published(site)
    for folder in databases(worker):
        for path in folder.glob("*.sst"):
            for at in range(100, path.stat().st_size // 2, 1500):
                flip(path, at)
    worker.log_path.unlink()
    worker.start()
    feed(site, [event for event in FIRST if event.value])
    worker.refused("is damaged: Corruption", "coversumm-worker reset --local")
    assert published(site) == before
    goes_on(site, worker, is_reset=True)


@pytest.mark.faults
def test_a_log_that_lost_its_end_is_an_older_state_and_catches_up(site: Pipeline) -> None:
    worker = killed(site)
    live = all_rows(worker)
    for folder in databases(worker):
        cut(max(folder.glob("*.log")), 0.5)
    same_again(worker, live)
    assert worker.restored_rows()[-1] > 0
    goes_on(site, worker)


# -- data directories ------------------------------------------------------------------------------


@pytest.mark.faults
def test_a_data_directory_from_a_backup_catches_up(site: Pipeline) -> None:
    worker = stopped(site, FIRST[:60])
    backup = shutil.copytree(worker.data_dir, worker.directory / "backup")
    worker.start().wait_ready()
    feed(site, FIRST[60:])
    site.wait_caught_up()
    assert worker.terminate() == 0
    live = all_rows(worker)
    worker.wipe()
    shutil.copytree(backup, worker.data_dir)
    same_again(worker, live)
    total = sum(log_sizes(site, site.changelog_topic).values())
    assert 0 < worker.restored_rows()[-1] < total
    goes_on(site, worker)


@pytest.mark.faults
def test_a_data_directory_of_another_worker_is_as_good_as_ones_own(site: Pipeline) -> None:
    """Rows belong to partitions, not to workers; what is stale in it is caught up."""
    worker = stopped(site, FIRST[:60])
    other = site.worker()
    shutil.copytree(worker.data_dir, other.data_dir)
    worker.start().wait_ready()
    feed(site, FIRST[60:])
    site.wait_caught_up()
    worker.kill()
    goes_on(site, other)


@pytest.mark.faults
def test_a_data_directory_of_another_pipeline_is_rebuilt(
    kafka: KafkaBroker, tmp_path: Path, site: Pipeline
) -> None:
    """Its rows are of another changelog, whatever their offsets."""
    with pipeline(
        kafka, f"{site.name}-other", tmp_path / "other", partitions=2, settings=SETTINGS
    ) as other:
        foreign = stopped(other, events(60, seed=9))
    worker = stopped(site)
    live = all_rows(worker)
    worker.wipe()
    shutil.copytree(foreign.data_dir, worker.data_dir)
    same_again(worker, live)
    goes_on(site, worker)


# -- the disk --------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk | None]:
    """A file system of 32 MiB; None where this process may not mount one."""
    if not may_mount():
        yield None
        return
    made = Disk(tmp_path / "disk", 32)
    try:
        yield made
    finally:
        made.unmount()


def never_ready(worker: WorkerProcess, code: int) -> None:
    """It ends with this code, and at no time before said that it was ready."""

    def ended() -> bool:
        assert not worker.ready(), worker.log_end()
        return not worker.alive

    eventually(ended, worker.log_end, every_s=0.05)
    assert worker.exit_code == code, worker.log_end()


@pytest.mark.long
def test_a_full_disk_while_processing(
    site: Pipeline, disk: Disk | None, request: pytest.FixtureRequest
) -> None:
    if disk is None:
        return run_as_root_of_a_namespace(request.node.nodeid)
    worker = stopped(site, FIRST[:60], data_dir=str(disk.path / "data"))
    worker.start().wait_ready()
    disk.fill()
    feed(site, FIRST[60:])
    assert worker.wait() == 3, worker.log_end()
    full = f"error: the disk of {disk.path}"
    assert worker.log_text().count(full) == 1
    worker.start()
    never_ready(worker, 3)
    # what it says: so does every start, until there is room
    assert worker.log_text().count(full) == 2
    assert "until there is room" in worker.log_text()
    disk.clear()
    goes_on(site, worker)


@pytest.mark.faults
def test_a_full_disk_while_recovering(
    site: Pipeline, disk: Disk | None, request: pytest.FixtureRequest
) -> None:
    if disk is None:
        return run_as_root_of_a_namespace(request.node.nodeid)
    text = "All of it was as good as it gets. " * 50
    large = [
        upsert(f"hotel {i % 7}", f"r{i}", text, [1.0, float(i)] + [0.5] * (DIMENSION - 2))
        for i in range(400)
    ]
    worker = stopped(site, large, data_dir=str(disk.path / "data"))
    live = all_rows(worker)
    worker.wipe()
    disk.fill(leave_bytes=256 << 10)
    worker.start()
    never_ready(worker, 3)
    assert "is full" in worker.log_text()
    disk.clear()
    same_again(worker, live)
    goes_on(site, worker)


# -- topics removed while the worker runs ----------------------------------------------------------


def ends(worker: WorkerProcess, *codes: int) -> None:
    """It ends by itself with one of these."""
    assert worker.wait() in codes, worker.log_end()


POISON = Sent(b"a hotel", b"no event")
QUICK = {
    "COVERSUMM_COMMIT_TIMEOUT_MS": "8000",
    "COVERSUMM_TRANSACTION_TIMEOUT_MS": "5000",
    "COVERSUMM_STALL_TIMEOUT_MS": "30000",
}


@pytest.mark.faults
@pytest.mark.parametrize("role", ["output", "dlq"])
def test_a_topic_to_publish_in_removed_while_running(site: Pipeline, role: str) -> None:
    """A crash; what was not committed comes later.

    An output topic is not begun anew, neither silently nor by hand: it is published again. A
    dead-letter topic is made by the restart.
    """
    site.settings = {**site.settings, **QUICK}
    (worker,) = site.start(1)
    feed(site, [*FIRST, POISON])
    site.wait_caught_up()
    topic = getattr(site, f"{role}_topic")
    committed = site.targets()
    delete_topic(site.broker, topic)
    feed(site, [*SECOND, POISON])
    ends(worker, 3)
    if role == "output":
        worker.refused_again(topic, "coversumm-worker reset", "another COVERSUMM_OUTPUT_TOPIC")
        assert site.lag(committed) == 0
        site.broker.create_topic(topic, site.partitions, {"cleanup.policy": "compact"})
        worker.refused_again(topic, "created again", "coversumm-worker reset")
        make_anew(site, site.dlq_topic)
        reset(worker)
    worker.start().wait_ready()
    site.wait_caught_up()
    site.stop()
    if role == "output":
        site.verify(compacted=True)
    else:  # Gone is what was in the dead-letter topic; nothing else is missing, repeated or wrong.
        report = site.report()
        assert set(report["differences"]) == {"I4 lost"}, report


@pytest.mark.faults
def test_an_input_topic_removed_while_running(site: Pipeline) -> None:
    (worker,) = site.start(1)
    feed(site, FIRST)
    site.wait_caught_up()
    before = published(site)
    make_anew(site, site.input_topic)
    feed(site, events(500, seed=5))
    eventually(lambda: not worker.alive, worker.log_end)
    assert worker.exit_code in (2, 3), worker.log_end()
    worker.refused_again("created again", "coversumm-worker reset")
    assert published(site) == before


@pytest.mark.long
def test_an_output_topic_created_again_while_running(site: Pipeline) -> None:
    """Nothing is committed that would be published to the new one, and no start goes on with it."""
    (worker,) = site.start(1)
    feed(site, FIRST)
    site.wait_caught_up()
    committed = site.targets()
    make_anew(site, site.output_topic, {"cleanup.policy": "compact"})
    feed(site, SECOND)
    ends(worker, 3)
    assert not any(published(site)[site.output_topic].values())
    worker.refused_again("created again", site.output_topic, "coversumm-worker reset")
    assert site.lag(committed) == 0
    assert site.lag(site.targets()) > 0


@pytest.mark.long
def test_a_changelog_removed_while_running(site: Pipeline) -> None:
    """Its rows would go into the new one, the offsets with them: nothing of that is committed."""
    (worker,) = site.start(1)
    feed(site, FIRST)
    site.wait_caught_up()
    before, committed = published(site), site.targets()
    make_anew(site, site.changelog_topic, {"cleanup.policy": "compact"})
    feed(site, SECOND)
    ends(worker, 3)
    assert published(site) == before
    worker.refused_again("coversumm-worker reset")
    assert site.lag(committed) == 0
    assert site.lag(site.targets()) > 0


# -- compaction ------------------------------------------------------------------------------------

TINY_SEGMENTS = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "500",
    "delete.retention.ms": "500",
}


@pytest.mark.long
def test_a_state_rebuilt_from_a_compacted_changelog_is_the_live_one(site: Pipeline) -> None:
    """Compaction really happened, tombstones and all; the deleted stay deleted."""
    site.broker.create_topic(site.changelog_topic, site.partitions, TINY_SEGMENTS)
    (worker,) = site.start(1)
    written = 0
    for at in range(0, len(FIRST), 30):
        feed(site, FIRST[at : at + 30])
        site.wait_caught_up()
    assert worker.terminate() == 0
    written = sum(log_sizes(site, site.changelog_topic).values())
    live = all_rows(worker)

    def compacted() -> bool:
        records = read_topic(site.broker.bootstrap_servers, site.changelog_topic)
        # The last segment is never cleaned: rows that change nothing push what is there into an
        # older one.
        padding = [
            record._replace(key=b"padding", value=None) for record in records[:1] + records[-1:]
        ]
        write_rows(site, padding, site.changelog_topic)
        tombstones = [
            record for record in records if record.value is None and record.key != b"padding"
        ]
        return len(records) - 4 * site.partitions < len(live) < written and not tombstones

    eventually(
        compacted,
        lambda: f"{written} were written, {log_sizes(site, site.changelog_topic)} are left",
        every_s=1,
    )
    assert sum(log_sizes(site, site.changelog_topic).values()) < written
    worker.wipe()
    same_again(worker, live)
    worker.start().wait_ready()
    feed(site, SECOND)
    site.wait_caught_up()
    site.stop()
    site.verify(compacted=True)
    site.verify_state()


@pytest.mark.faults
def test_local_state_older_than_the_tombstones_of_its_changelog_is_rebuilt(site: Pipeline) -> None:
    """A copy from before a deletion whose tombstone is gone by now: following the log from there,
    the row would stay.
    """
    site.broker.create_topic(
        site.changelog_topic, site.partitions, TINY_SEGMENTS | {"delete.retention.ms": "1000"}
    )
    worker = stopped(site, FIRST[:60])
    backup = shutil.copytree(worker.data_dir, worker.directory / "backup")
    worker.start().wait_ready()
    feed(site, [Sent(key, None) for key in {event.key for event in FIRST[:60]} if key])
    site.wait_caught_up()
    assert worker.terminate() == 0
    live = all_rows(worker)

    def forgotten() -> bool:
        records = read_topic(site.broker.bootstrap_servers, site.changelog_topic)
        write_rows(
            site,
            [r._replace(key=b"padding", value=None) for r in records[:1] + records[-1:]],
            site.changelog_topic,
        )
        return not any(record.value is None and record.key != b"padding" for record in records)

    eventually(forgotten, lambda: "its tombstones are still there", every_s=1)
    worker.wipe()
    shutil.copytree(backup, worker.data_dir)
    same_again(worker, live)
    assert "rebuilding it" in worker.log_text()


# -- damage under load -----------------------------------------------------------------------------


class Operated(Site):
    """A site with an operator, who does what a worker says that refuses its state."""

    def restart(self, worker: WorkerProcess) -> None:
        """After a reset, where it asks for one."""
        if worker.exit_code == 2:
            assert "coversumm-worker reset --local" in worker.log_text(), worker.log_end()
            reset(worker, "--local")
            worker.start()
        else:
            super().restart(worker)


@pytest.mark.faults
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_under_load(
    kafka: KafkaBroker, tmp_path: Path, recorder: Recorder, kind: str
) -> None:
    """One of two workers is killed, damaged and started again four times."""
    load = events(1500, seed=len(kind))
    faults = [Fault(kind, at=share, worker="one") for share in (0.2, 0.4, 0.6, 0.8)]
    name = "".join(c if c.isalnum() else "-" for c in f"damage-{kind}")
    with (
        recorder.row(f"damage: {kind}") as row,
        pipeline(kafka, name, tmp_path, settings=SETTINGS) as live,
    ):
        options = {"how": send, "chunk": 50, "make_site": Operated}
        under_faults(live, row, load, len(load), faults, rate=60, **options)
        assert row.faults == len(faults)
