"""The question before something is thrown away, at a real (pseudo-)terminal."""

import os
import pty
import subprocess

import pytest

from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.workers import COMMAND, ROOT, clean_environment

QUESTION = b"Throw all of this away? [y/N]: "
CTRL_C, CTRL_D = b"\x03", b"\x04"


@pytest.fixture
def data_dir(tmp_path):
    """A data directory with a database in it, and no lock file."""
    folder = tmp_path / "data" / "v1" / "tables" / "entities-0.db"
    folder.mkdir(parents=True)
    (folder / "000001.sst").write_bytes(b"12345")
    return tmp_path / "data"


def answered(data_dir, answer):
    """Exit code and screen of `reset --local` at a terminal."""
    ours, theirs = pty.openpty()
    environment = {"COVERSUMM_DATA_DIR": str(data_dir), "COVERSUMM_EMBEDDER": "none"}
    process = subprocess.Popen(
        [*COMMAND, "reset", "--local"],
        cwd=ROOT,
        env=clean_environment(environment),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(
            os.open(os.ttyname(0), os.O_RDWR)
        ),  # its controlling terminal: for Ctrl-C
    )
    os.close(theirs)
    screen = b""
    try:
        while chunk := _read(ours):
            screen += chunk
            if answer and screen.endswith(QUESTION):
                os.write(ours, answer)
                answer = b""
        return process.wait(PATIENCE_SECONDS), screen.decode().replace("\r", "")
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        os.close(ours)


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody has the other side open any more
        return b""


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\n", 1), (CTRL_C, 130), (CTRL_D, 130)])
def test_anything_but_yes_changes_nothing_and_says_so(data_dir, answer, code):
    before = sorted(data_dir.rglob("*"))
    ended, screen = answered(data_dir, answer)
    assert ended == code
    assert screen.index("publishes nothing again") < screen.index(QUESTION.decode())
    assert screen.endswith("\nnothing changed\n")
    assert sorted(data_dir.rglob("*")) == before


def test_yes(data_dir):
    ended, screen = answered(data_dir, b"y\n")
    assert (ended, screen.splitlines()[-1]) == (0, "local: done")
    assert not list(data_dir.glob("v1/tables/*"))
