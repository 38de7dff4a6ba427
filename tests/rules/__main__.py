"""Take each rule of the delivery layer out of a copy of the sources: the tests named beside it must fail.

    python -m tests.rules [WORD ...]      only rules that have one of these words

Exit code 1 when the tests pass without a rule (or do not pass with all of them).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.rules.rules import ROOT, RULES, Rule

COPIED = ("worker", "tests", "schemas", "deploy", "pyproject.toml", "README.md")
SECONDS = 300


def copy(folder: Path) -> None:
    """What the tests need of the sources."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(source, folder / name)
    (folder / ".cache").symlink_to(ROOT / ".cache")  # the broker's jars


def passes(folder: Path, tests: list[str]) -> bool:
    """Whether these tests pass on the copy. One that hangs does not."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):  # no such test, no collection: neither passed nor failed
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.returncode == 0


def holds(folder: Path, rule: Rule) -> bool:
    """Whether the tests notice that the rule is gone."""
    path = folder / rule.file
    source = path.read_text()
    path.write_text(source.replace(rule.code, rule.without))
    try:
        return not passes(folder, list(rule.tests))
    finally:
        path.write_text(source)


def main() -> int:
    """Try every rule; show the table."""
    rules = [rule for rule in RULES if all(word in rule.rule for word in sys.argv[1:])]
    table = Table("rule", "in", "without it", "seconds")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rules-") as scratch, Progress(transient=True) as progress:
        folder = Path(scratch)
        copy(folder)
        task = progress.add_task("all rules in place", total=len(rules) + 1)
        everything = sorted({test for rule in rules for test in rule.tests})
        if not passes(folder, everything):
            print("the tests fail with every rule in place", file=sys.stderr)
            return 1
        for rule in rules:
            progress.update(task, description=rule.rule[:60], advance=1)
            started = time.monotonic()
            held = holds(folder, rule)
            failed += not held
            verdict = "the tests fail" if held else "[red]the tests pass"
            table.add_row(rule.rule, rule.file, verdict, f"{time.monotonic() - started:.1f}")
    Console().print(table)
    print(f"{len(rules) - failed} of {len(rules)} rules are held by a test")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
