"""Take each rule of the delivery layer out of a copy of the sources: the tests named beside it must fail.

    python -m tests.rules [WORD ...]      only rules that have one of these words

Exit code 1 when the tests pass without a rule (or do not pass with all of them). A rule whose absence makes them hang, which
some must, is shown as such.
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


def run(folder: Path, tests: list[str]) -> str:
    """What becomes of these tests on the copy: `pass`, `fail` or `hang`."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not faults", *tests]
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
        return run(folder, list(rule.tests))
    finally:
        path.write_text(source)


def main() -> int:
    """Try every rule; show the table."""
    words = sys.argv[1:]
    rules = [rule for rule in RULES if not words or any(word in rule.rule for word in words)]
    table = Table("rule", "in", "without it", "seconds")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rules-") as scratch, Progress(transient=True) as progress:
        folder = Path(scratch)
        copy(folder)
        task = progress.add_task("all rules in place", total=len(rules) + 1)
        everything = sorted({test for rule in rules for test in rule.tests})
        if run(folder, everything) != "pass":
            print("the tests fail with every rule in place", file=sys.stderr)
            return 1
        for rule in rules:
            progress.update(task, description=rule.rule[:60], advance=1)
            started = time.monotonic()
            verdict = run_without(folder, rule)
            failed += verdict == "pass"
            shown = f"{'[red]' if verdict == 'pass' else ''}the tests {verdict}"
            table.add_row(rule.rule, rule.file, shown, f"{time.monotonic() - started:.1f}")
    Console().print(table)
    print(f"{len(rules) - failed} of {len(rules)} rules are held by a test")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
