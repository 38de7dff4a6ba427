"""What happens to the things a worker relies on: its files, its disk, its topics. Done from
outside, as misfortune does it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka import TopicPartition
from rocksdict import AccessType, Options, Rdict

from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import Message, end_offsets, producer, read_topic
from tests.harness.workers import ROOT, Pipeline, WorkerProcess, run_command
from worker.state.keys import describe

FAUST = b"__faust"

# -- files -----------------------------------------------------------------------------------------


def databases(worker: WorkerProcess) -> list[Path]:
    """The folders of its partitions' databases that have rows."""
    return sorted(path for path in worker.data_dir.glob("**/*.db") if stored_rows(path))


def stored_rows(folder: Path) -> dict[bytes, bytes]:
    """The rows of one database of an ended worker, Faust's own keys left out."""
    with _open(folder, AccessType.read_only(False)) as database:
        rows = {bytes(key): bytes(value) for key, value in database.items()}
    return {key: value for key, value in rows.items() if not key.startswith(FAUST)}


def all_rows(worker: WorkerProcess) -> dict[tuple[str, bytes], bytes]:
    """Every row of an ended worker, by database and key."""
    return {
        (path.name, key): value
        for path in sorted(worker.data_dir.glob("**/*.db"))
        for key, value in stored_rows(path).items()
    }


def flip_rows(folder: Path, kind: bytes) -> set[str]:
    """Flip the last byte of each row whose description begins so, as a bad disk under a good
    checksum would; their names.
    """
    damaged = {}
    for key, value in stored_rows(folder).items():
        if describe(key).startswith(kind.decode()):
            damaged[key] = value[:-1] + bytes([value[-1] ^ 1])
    with _open(folder, AccessType.read_write()) as database:
        for key, value in damaged.items():
            database[key] = value
    return {describe(key) for key in damaged}


def flip(path: Path, at: int) -> None:
    """One bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def cut(path: Path, share: float) -> None:
    """All of a file behind this share of it."""
    os.truncate(path, int(path.stat().st_size * share))


def _flip_row(worker: WorkerProcess) -> None:
    flip_rows(databases(worker)[0], b"applied offset")


def _cut_files(pattern: str, share: float) -> Callable[[WorkerProcess], None]:
    def done(worker: WorkerProcess) -> None:
        for folder in databases(worker):
            for path in folder.glob(pattern):
                cut(path, share)

    return done


def _remove_a_table_file(worker: WorkerProcess) -> None:
    tables = [path for folder in databases(worker) for path in folder.glob("*.sst")]
    if tables:  # there is none before the first restart
        tables[0].unlink()


def _flip_table_files(worker: WorkerProcess) -> None:
    for path in worker.data_dir.glob("**/*.sst"):
        for at in range(50, path.stat().st_size - 50, 3000):
            flip(path, at)


DAMAGES: dict[str, Callable[[WorkerProcess], None]] = {
    "data directory wiped": WorkerProcess.wipe,
    "state row flipped": _flip_row,
    "RocksDB manifests cut": _cut_files("MANIFEST-*", 0.6),
    "RocksDB logs cut": _cut_files("*.log", 0.7),
    "RocksDB table file removed": _remove_a_table_file,
    "RocksDB table files flipped": _flip_table_files,
}
"""What happens to the files of a worker that was killed."""


@contextlib.contextmanager
def _open(folder: Path, access: AccessType) -> Iterator[Rdict]:
    database = Rdict(str(folder), Options(raw_mode=True), access_type=access)
    try:
        yield database
    finally:
        database.close()


def reset(worker: WorkerProcess, *options: str) -> None:
    """`coversumm-worker reset`, as the message says; again while a killed worker
    still counts as a member.
    """
    said = ""

    def done() -> bool:
        nonlocal said
        run = run_command("reset", "--yes", *options, environment=worker.environment)
        said = run.stdout + run.stderr
        return run.returncode == 0

    eventually(done, lambda: said, every_s=1)


# -- the disk --------------------------------------------------------------------------------------


class Disk:
    """A small file system of a test's own, that can be full."""

    def __init__(self, path: Path, mebibytes: int) -> None:
        self.path = path
        self._filler = path / "filler"
        path.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)], check=True
        )

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the room but so much."""
        # Unbuffered: what a buffer could not write would fail once more when the file is closed.
        with self._filler.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(64 << 10))
        size = self._filler.stat().st_size
        os.truncate(self._filler, max(0, size - leave_bytes))
        assert self.free() <= leave_bytes + (64 << 10)

    def free(self) -> int:
        """Bytes that are left."""
        return shutil.disk_usage(self.path).free

    def clear(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def unmount(self) -> None:
        """The end of it, whoever still has files there."""
        subprocess.run(["umount", "-l", str(self.path)], check=True)


def may_mount() -> bool:
    """Whether this process may mount a file system: root, of the machine or of a namespace."""
    return os.geteuid() == 0


def run_as_root_of_a_namespace(test_id: str) -> None:
    """Run one test again where it may mount; AssertionError with the reason where that cannot be
    had, or with its failure.
    """
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "",
        test_id,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, (
        "this test fills a file system of its own: run it as root, or allow user namespaces "
        f"(sysctl kernel.unprivileged_userns_clone=1)\n{done.stdout}{done.stderr}"
    )


# -- topics ----------------------------------------------------------------------------------------


def delete_topic(broker: KafkaBroker, name: str) -> None:
    """Delete a topic, and wait until nobody knows it any more."""
    admin = broker.admin()
    for future in admin.delete_topics([name], operation_timeout=PATIENCE_SECONDS).values():
        future.result(PATIENCE_SECONDS)
    eventually(
        lambda: name not in admin.list_topics(timeout=10).topics, lambda: f"{name} is still there"
    )


def make_anew(site: Pipeline, name: str, config: Mapping[str, str] | None = None) -> None:
    """Delete a topic and create it again, empty."""
    delete_topic(site.broker, name)
    site.broker.create_topic(name, site.partitions, config)


def write_rows(site: Pipeline, rows: list[Message], topic: str) -> None:
    """Write records, bytes and partitions as they were, into a topic."""
    writer = producer(site.broker.bootstrap_servers)
    for row in rows:
        writer.produce(topic, row.value, row.key, row.partition)
    assert writer.flush(PATIENCE_SECONDS) == 0


def published(site: Pipeline) -> dict[str, dict[int, int]]:
    """Where output and dead letters end for a committed reader: what anybody can have read."""
    return {
        topic: end_offsets(site.broker.bootstrap_servers, topic)
        for topic in (site.output_topic, site.dlq_topic)
    }


def log_sizes(site: Pipeline, topic: str) -> dict[int, int]:
    """By partition: records that are in the log now, removed ones not counted."""
    sizes = dict.fromkeys(range(site.partitions), 0)
    for message in read_topic(site.broker.bootstrap_servers, topic):
        sizes[message.partition] += 1
    return sizes


def delete_records(site: Pipeline, topic: str, before: Mapping[int, int]) -> None:
    """What retention does: the log's start moves."""
    asked = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
    admin = site.broker.admin()  # its futures fail once it is collected
    for future in admin.delete_records(asked).values():
        future.result(PATIENCE_SECONDS)
