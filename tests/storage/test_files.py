"""Damaged RocksDB files: every damage is an error with the folder's name, or an older state under
an older offset.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from tests.storage.dying import OFFSET, batches
from worker.errors import Crash
from worker.state import DamagedDatabase
from worker.storage.rows import RocksRows, check_files, explained

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a database whose process was killed."""
    folder = tmp_path_factory.mktemp("databases") / "entities-0.db"
    program = f"from tests.storage.dying import write_and_die; write_and_die({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
    assert len(list(folder.glob("*.sst"))) == 3
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "entities-0.db")


def history() -> list[dict[bytes, bytes]]:
    """The rows after each batch."""
    return list(accumulate(batches(), lambda rows, batch: rows | batch))


def read(folder: Path) -> dict[bytes, bytes]:
    """All rows, as the worker comes to them: files checked, opened, scanned; raises what the worker
    ends with.
    """
    check_files(folder)
    try:
        database = Rdict(str(folder), Options(raw_mode=True))
    except Exception as error:
        raise explained(folder, error) from error
    try:
        rows = RocksRows(database, folder)
        found = dict(rows.scan(b""))
        assert all(rows.get(key) == value for key, value in found.items())
        return found
    finally:
        with suppress(Exception):  # a compaction met the damage too, and says so at the close
            database.close()


def damaged(path: Path, how: str) -> None:
    content = path.read_bytes()
    at = {
        "head": min(20, len(content) - 1),
        "middle": len(content) // 2,
        "end": max(0, len(content) - 20),
    }
    action, _, place = how.partition(" ")
    if action == "remove":
        path.unlink()
    elif action == "empty":
        path.write_bytes(b"")
    elif action == "cut":
        os.truncate(path, at[place])
    else:
        assert action == "flip"
        path.write_bytes(
            content[: at[place]] + bytes([content[at[place]] ^ 0x40]) + content[at[place] + 1 :]
        )


DAMAGES = [
    "remove",
    "empty",
    "cut head",
    "cut middle",
    "cut end",
    "flip head",
    "flip middle",
    "flip end",
]
FILES: dict[str, Callable[[Path], Path]] = {
    "first table file": lambda folder: sorted(folder.glob("*.sst"))[0],
    "last table file": lambda folder: sorted(folder.glob("*.sst"))[-1],
    "log": lambda folder: sorted(folder.glob("*.log"))[-1],
    "manifest": lambda folder: next(folder.glob("MANIFEST-*")),
    "current": lambda folder: folder / "CURRENT",
    "options": lambda folder: sorted(folder.glob("OPTIONS-*"))[-1],
    "identity": lambda folder: folder / "IDENTITY",
    "configuration": lambda folder: folder / "rocksdict-config.json",
}


def test_a_killed_database_is_whole(folder: Path) -> None:
    assert read(folder) == history()[-1]
    assert read(folder) == history()[-1]  # and after it was opened and closed


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_is_refused_or_gives_an_older_state_as_a_whole(
    folder: Path, file: str, damage: str
) -> None:
    """Never some rows of one state and the offset of another: a restore goes on from the offset."""
    damaged(FILES[file](folder), damage)
    refused, found = None, {}
    try:
        found = read(folder)
    except DamagedDatabase as error:
        refused = str(error)
    if refused is not None:
        assert str(folder) in refused
        assert "coversumm-worker reset --local" in refused
        assert "\n" not in refused
        assert file in ("first table file", "last table file", "manifest", "current", "log")
        return
    states = history()
    # a new database was made: there is no offset, and the restore begins at the log's start
    if not found:
        assert file == "current"
        return
    assert found == states[int(found[OFFSET])]
    assert file not in ("first table file", "last table file")
    if file not in ("log", "manifest"):
        assert found == states[-1]


@pytest.mark.parametrize("tenth", range(1, 10))
def test_a_manifest_cut_anywhere_never_hides_rows(folder: Path, tenth: int) -> None:
    """RocksDB opens it without complaint: fewer table files, and from the log the newest offset."""
    path = FILES["manifest"](folder)
    os.truncate(path, path.stat().st_size * tenth // 10)
    with pytest.raises(DamagedDatabase, match="manifest"):
        read(folder)


def test_a_removed_log_before_another_is_noticed(folder: Path) -> None:
    """The writes of the removed one are in no table file, and the next one goes on behind them."""
    log = FILES["log"](folder)
    number = int(log.stem)
    later = log.with_name(f"{number + 1:06}.log")
    content = log.read_bytes()
    sequence = int.from_bytes(content[7:15], "little")
    later.write_bytes(content[:7] + (sequence + 21).to_bytes(8, "little") + content[15:])
    check_files(folder)  # both are there
    log.unlink()
    with pytest.raises(DamagedDatabase, match="its log begins at"):
        check_files(folder)


def test_no_database_and_one_without_writes_are_sound(tmp_path: Path) -> None:
    check_files(tmp_path / "none.db")
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    Rdict(str(tmp_path / "new.db"), options).close()
    check_files(tmp_path / "new.db")


def test_the_check_writes_nothing(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    check_files(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "IO error: No space left on device: While appending to file: /data/x.log: No space "
            "left",
            Crash,
        ),
        ("Corruption: block checksum mismatch\nmore", DamagedDatabase),
        (
            "IO error: No such file or directory: While open a file: /data/MANIFEST-000005",
            DamagedDatabase,
        ),
        ("Invalid argument: not an SST file", DamagedDatabase),
    ],
)
def test_what_an_error_of_rocksdb_comes_to(text: str, kind: type[Exception]) -> None:
    error = explained("/data/entities-3.db", Exception(text))
    assert isinstance(error, kind)
    assert "/data/entities-3.db" in str(error)
    assert "\n" not in str(error)
    if kind is Crash:
        assert "so does every start of it until there is room" in str(error)


def test_an_error_nobody_foresaw_stays_as_it_is() -> None:
    for error in (Exception("IO error: Input/output error"), OSError("x"), Crash("y")):
        assert explained("folder", error) is error
