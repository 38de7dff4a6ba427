"""What the pages name exists: files and folders of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")])
PATHS = re.compile(r"`((?:worker|tests|docs|deploy|schemas)/[\w./-]+|\w+\.md)`")
ROOMS = re.compile(
    r"`((?:cli|coversumm|demo|events|kafka|page|processing|published|replay|settings|sources|state"
    r"|storage|stream|text|tools|view)/[\w./-]*)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {ROOT / path for path in PATHS.findall(text)} | {
        ROOT / "worker" / p for p in ROOMS.findall(text)
    }
    assert [path for path in named if not path.exists()] == []


def test_paths_are_found() -> None:
    assert PATHS.findall("`worker/app.py` and `CHANGELOG.md`, not `make docs`") == [
        "worker/app.py",
        "CHANGELOG.md",
    ]
    assert ROOMS.findall("`stream/gate.py`") == ["stream/gate.py"]
