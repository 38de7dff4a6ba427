"""A data directory is one process's: of a worker until it ends, of a command as long as it needs
it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from worker.errors import SetupError
from worker.storage import lock
from worker.storage.lock import held, is_running, lock_data_dir, try_lock


def test_a_data_directory_is_held_against_a_second_worker(tmp_path: Path) -> None:
    data_dir = tmp_path / "yet"
    lock_data_dir(data_dir)
    code = (
        "import pathlib, sys\n"
        "from worker.errors import SetupError\n"
        "from worker.storage.lock import lock_data_dir\n"
        "try: lock_data_dir(pathlib.Path(sys.argv[1]))\n"
        "except SetupError as error: print(error); sys.exit(2)\n"
    )
    run = [sys.executable, "-c", code]
    second = subprocess.run(
        [*run, str(data_dir)], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert second.returncode == 2, second.stderr
    assert "in use by another worker" in second.stdout
    # The lock ends with its process: one that was free a moment ago can be had again.
    for _ in range(2):
        assert (
            subprocess.run([*run, str(tmp_path / "free")], timeout=PATIENCE_SECONDS).returncode == 0
        )


def test_a_directory_below_none_is_refused_except_the_default_and_below_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume that is not mounted: the worker would fill the disk of its mount point."""
    state = tmp_path / "volume" / "worker"
    with pytest.raises(SetupError, match=f"COVERSUMM_DATA_DIR={state}: there is no folder"):
        lock_data_dir(state)
    with pytest.raises(SetupError, match=f"COVERSUMM_VECTOR_STORE_DIR={state}: there is no"):
        try_lock(state, "COVERSUMM_VECTOR_STORE_DIR")
    with pytest.raises(SetupError, match="there is no folder"):
        lock_data_dir(state / "replay-one", of_replay=True)
    assert not state.parent.exists()
    lock_data_dir(tmp_path / "worker" / "replay-one", of_replay=True)
    monkeypatch.setattr(lock, "_DEFAULTS", tmp_path / "home")
    lock_data_dir(tmp_path / "home" / "coversumm-worker")
    monkeypatch.chdir("/")
    with pytest.raises(SetupError, match="there is no folder"):
        lock_data_dir(state)
    monkeypatch.chdir(tmp_path)
    lock_data_dir(Path("new/data"))


def test_a_data_directory_is_its_owners_alone(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir(mode=0o755)
    for folder in (old, tmp_path / "new"):
        with held(folder):
            assert folder.stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    file = try_lock(shared, "COVERSUMM_VECTOR_STORE_DIR")
    assert file is not None
    os.close(file)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_a_data_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Below a file nobody can make a directory, not even root."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"COVERSUMM_DATA_DIR=.* cannot be written"):
        lock_data_dir(tmp_path / "file" / "data")
    (tmp_path / "data" / "lock").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"COVERSUMM_DATA_DIR=.* cannot be written"):
        lock_data_dir(tmp_path / "data")


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(
        SetupError, match=r"COVERSUMM_DATA_DIR=.* \(No space left on device\): make room"
    ):
        lock_data_dir(tmp_path)


def test_workers_are_kept_out_as_long_as_a_command_needs_it(tmp_path: Path) -> None:
    with held(tmp_path):
        assert is_running(tmp_path)
        with pytest.raises(SetupError, match="in use by another worker"):
            lock_data_dir(tmp_path)
        with pytest.raises(SetupError, match="its worker is running"), held(tmp_path):
            pass
    assert not is_running(tmp_path)
