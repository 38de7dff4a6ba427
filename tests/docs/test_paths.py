"""What the pages name exists: files and folders of the project."""

from __future__ import annotations

import re
from pathlib import Path

from tests.layers import FLOOR

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")])
PATHS = re.compile(r"`((?:worker|tests|docs|deploy|schemas)/[\w./-]+|\w+\.md)`")
ROOMS = re.compile(
    r"`((?:cli|coversumm|credentials|demo|events|kafka|operations|processing|published|replay|settings"
    r"|sources|state|storage|stream|telemetry|text|view|web)/[\w./-]*)`"
)


def test_every_path_exists() -> None:
    named = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named |= {(page, ROOT / path) for path in PATHS.findall(text)}
        named |= {(page, ROOT / "worker" / path) for path in ROOMS.findall(text)}
    assert [path for path in sorted(named) if not path[1].exists()] == []


def test_every_folder_and_module_is_in_the_list() -> None:
    names = {path.stem for path in (ROOT / "worker").iterdir()} - {"__init__", "__main__"}
    rooms = {name for name in names if name in {room.removeprefix("worker.") for room in FLOOR}}
    (tree,) = re.findall(
        r"^```\n(.*?)^```", (ROOT / "docs" / "architecture.md").read_text("utf-8"), re.M | re.S
    )
    assert len(rooms) > 20
    assert [room for room in sorted(rooms) if not re.search(rf"\b{room}(/|\.py)", tree)] == []
