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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.rules.rules import ROOT, RULES, Rule

PROCESSES = 3
"""Tests mostly wait: as many keep two cores busy."""
HELD = ("fail", "hang")
COPIED = ("worker", "tests", "schemas", "deploy", "docs", "pyproject.toml", "README.md")
SECONDS = 600
"""Tests that take longer hang: where something is missing, one wait of theirs
(tests.harness.patience) runs out.
"""


def copy(folder: Path) -> None:
    """What the tests need of the sources."""
    folder.mkdir()
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
    with (
        tempfile.TemporaryDirectory(prefix="rules-") as scratch,
        ThreadPoolExecutor(PROCESSES) as pool,
        Progress(transient=True) as progress,
    ):
        folders: SimpleQueue[Path] = SimpleQueue()  # the copies that no test runs on
        for number in range(PROCESSES):
            folder = Path(scratch, str(number))
            copy(folder)
            folders.put(folder)
        suites = list(dict.fromkeys(rule.tests for rule in rules))
        task = progress.add_task("", total=len(suites) + len(rules))

        def on_a_copy(tried: Rule | tuple[str, ...]) -> tuple[str, float]:
            """The verdict, and its seconds."""
            folder = folders.get()
            started = time.monotonic()
            try:
                verdict = (
                    run_without(folder, tried) if isinstance(tried, Rule) else run(folder, tried)
                )
            finally:
                folders.put(folder)
            progress.advance(task)
            return verdict, time.monotonic() - started

        # what becomes of the tests with every rule in place
        whole = dict(zip(suites, pool.map(on_a_copy, suites), strict=True))
        sound = [rule for rule in rules if whole[rule.tests][0] == "pass"]
        without = dict(zip(sound, pool.map(on_a_copy, sound), strict=True))
    table = Table("rule", "in", "without it the tests", "seconds")
    for rule in rules:
        verdict, seconds = without.get(rule, ("fail with it too", whole[rule.tests][1]))
        shown = verdict if verdict in HELD else f"[red]{verdict}"
        table.add_row(rule.rule, rule.file, shown, f"{seconds:.1f}")
    Console(width=160).print(table)
    held = sum(verdict in HELD for verdict, _ in without.values())
    print(f"{held} of {len(rules)} rules are held by a test")
    return 0 if held == len(rules) else 1


if __name__ == "__main__":
    sys.exit(main())
