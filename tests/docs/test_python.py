"""docs/python.md: its code runs from top to bottom, prints what stands below it, and passes mypy as
a user's would.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.build.render import ROOT

PAGE = ROOT / "docs" / "python.md"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    PAGE.read_text(encoding="utf-8"),
    re.M | re.S,
)


def test_the_code_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    assert len(BLOCKS) >= 6
    for code, expected in BLOCKS:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == expected


def test_it_is_typed_for_those_who_import_it(tmp_path: Path) -> None:
    """With mypy's strict mode and no settings of this project's."""
    (tmp_path / "notebook.py").write_text("\n".join(code for code, _ in BLOCKS))
    wrong = (
        "from worker.coversumm import CoverSumm\nCoverSumm(k='five', dimension=384).add(7, [1.0])\n"
    )
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\ncache_dir = {tmp_path}\nmypy_path = {ROOT}\nfollow_imports = "
        "silent\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "notebook.py", "wrong.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.partition(":")[0] for line in errors] == ["wrong.py", "wrong.py"], (
        done.stdout + done.stderr
    )
    assert (ROOT / "worker" / "py.typed").exists()
