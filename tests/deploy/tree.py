"""A repository of the project's files as they are now, with an entry for the changelog."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.release import git
from deploy.version import ROOT, UNRELEASED

ENTRY = "- An entry of the test.\n"


def committed(folder: Path) -> Path:
    """The folder, which has them in one commit."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text().replace(UNRELEASED, f"{UNRELEASED}\n{ENTRY}", 1)
    changelog.write_text(text)
    git("init", "--quiet", root=folder)
    git("add", "--all", root=folder)
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    git(*who, "commit", "--quiet", "--message", "All", root=folder)
    return folder
