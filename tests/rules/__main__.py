"""Take each rule of the delivery layer out of a copy of the sources: the tests named beside it must
fail.

    python -m tests.rules [WORD ...]      only rules that have one of these words

Exit code 1 when the tests pass without a rule, or do not pass with all of them. A rule whose
absence makes them hang, which some must, is shown as such.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.rules.rules import ROOT, RULES, Rule

COPIED = ("worker", "tests", "schemas", "deploy", "docs", "pyproject.toml", "README.md")
SECONDS = 600
"""Tests that take longer hang: where something is missing, one wait of theirs
(tests.harness.patience) runs out.
"""


def copy(folder: Path) -> None:
    """What the tests need of the sources."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results")
            )
        else:
            shutil.copy(source, folder / name)
    jars = ROOT / ".cache"  # of the broker
    jars.mkdir(exist_ok=True)  # in a fresh clone there are none yet
    (folder / ".cache").symlink_to(jars)


def run(folder: Path, tests: Sequence[str]) -> str:
    """What becomes of these tests on the copy: `pass`, `fail` or `hang`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not faults",
        "--every-example",
        *tests,
    ]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode not in (0, 1):  # no such test, no collection: neither passed nor failed
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return "fail" if done.returncode else "pass"


def run_without(folder: Path, rule: Rule) -> str:
    """What becomes of the rule's tests when it is gone."""
    path = folder / rule.file
    source = path.read_text()
    path.write_text(source.replace(rule.code, rule.without))
    try:
        return run(folder, rule.tests)
    finally:
        path.write_text(source)


def main() -> int:
    """Try every rule; show the table."""
    words = sys.argv[1:]
    rules = [rule for rule in RULES if not words or any(word in rule.rule for word in words)]
    table = Table("rule", "in", "without it the tests", "seconds")
    unheld = 0
    with (
        tempfile.TemporaryDirectory(prefix="rules-") as scratch,
        Progress(transient=True) as progress,
    ):
        folder = Path(scratch)
        copy(folder)
        task = progress.add_task("", total=len(rules))
        # what becomes of some tests with every rule in place
        whole: dict[tuple[str, ...], str] = {}
        for rule in rules:
            progress.update(task, description=rule.rule[:60])
            started = time.monotonic()
            if rule.tests not in whole:
                whole[rule.tests] = run(folder, rule.tests)
            verdict = (
                run_without(folder, rule) if whole[rule.tests] == "pass" else "fail with it too"
            )
            held = verdict in ("fail", "hang")
            unheld += not held
            shown = verdict if held else f"[red]{verdict}"
            table.add_row(rule.rule, rule.file, shown, f"{time.monotonic() - started:.1f}")
            progress.advance(task)
    Console(width=160).print(table)
    print(f"{len(rules) - unheld} of {len(rules)} rules are held by a test")
    return 1 if unheld else 0


if __name__ == "__main__":
    sys.exit(main())
