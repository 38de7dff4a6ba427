"""The question before something is thrown away, at a real (pseudo-)terminal."""

import pytest

from tests.harness.terminal import CONTROL_C, Terminal
from tests.harness.workers import COMMAND, ROOT, clean_environment

QUESTION = "Throw all of this away? [y/N]: "
CONTROL_D = "\x04"


@pytest.fixture
def data_dir(tmp_path):
    """A data directory with a database in it, and no lock file."""
    folder = tmp_path / "data" / "v1" / "tables" / "entities-0.db"
    folder.mkdir(parents=True)
    (folder / "000001.sst").write_bytes(b"12345")
    return tmp_path / "data"


def answered(data_dir, answer):
    """Exit code and screen of `reset --local` at a terminal."""
    environment = clean_environment(
        {"COVERSUMM_DATA_DIR": str(data_dir), "COVERSUMM_EMBEDDER": "none"}
    )
    with Terminal([*COMMAND, "reset", "--local"], environment=environment, cwd=ROOT) as terminal:
        terminal.wait_for(QUESTION)
        ended = terminal.press_until_it_ends(answer)
        return ended, terminal.shown


@pytest.mark.parametrize(
    ("answer", "code"), [("n\n", 1), ("\n", 1), (CONTROL_C, 130), (CONTROL_D, 130)]
)
def test_anything_but_yes_changes_nothing_and_says_so(data_dir, answer, code):
    before = sorted(data_dir.rglob("*"))
    ended, screen = answered(data_dir, answer)
    assert ended == code
    assert screen.index("publishes nothing again") < screen.index(QUESTION)
    assert screen.endswith("\nnothing changed\n")
    assert sorted(data_dir.rglob("*")) == before


def test_yes(data_dir):
    ended, screen = answered(data_dir, "y\n")
    assert (ended, screen.splitlines()[-1]) == (0, "local: done")
    assert not list(data_dir.glob("v1/tables/*"))
