"""Who is measured: this tree's worker, and that of another commit beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.bench.worker import launch
from tests.harness.workers import ROOT, Pipeline, WorkerProcess

OURS = "ours"
FACETS = "facets"
"""Ours, with facets."""


class Contender(NamedTuple):
    """A worker of this tree, or of a checkout of another commit; `launcher` as of `Pipeline`, for
    one of this tree. `facets` is what COVERSUMM_FACETS names.
    """

    name: str
    checkout: Path | None = None
    launcher: str | None = None
    facets: str | None = None

    def worker(self, site: Pipeline, name: str, **own: str) -> WorkerProcess:
        """A worker with an application id and an output topic of its own, not started; over the
        input that the site has.

        `own` are further settings, without the prefix.
        """
        given = {
            "app_id": name,
            "output_topic": f"{name}.summaries",
            "dlq_topic": f"{name}.dlq",
            **own,
        }
        if self.facets is not None:
            given |= {"facets": self.facets, "facets_topic": f"{name}.facets"}
        environment = {
            **site.environment,
            **{f"COVERSUMM_{variable.upper()}": value for variable, value in given.items()},
        }
        launcher = self.launcher
        if self.checkout is not None:
            environment[launch.CHECKOUT] = str(self.checkout)
            launcher = launch.__name__
        worker = WorkerProcess(site.directory / name, environment, launcher=launcher)
        site.workers.append(worker)
        return worker


@contextmanager
def contenders(against: str | None, folder: Path) -> Iterator[list[Contender]]:
    """Ours; with `against` that commit's, checked out below `folder` for as long.

    Raises SystemExit where there is no such commit.
    """
    ours = Contender(OURS)
    if against is None:
        yield [ours]
        return
    checkout = folder / "checkout"
    _git("worktree", "add", "--detach", str(checkout), against)
    try:
        if find_spec("worker._native"):  # else Python's forms are compared
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, cwd=checkout, check=True, capture_output=True)
        yield [ours, Contender(against, checkout)]
    finally:
        _git("worktree", "remove", "--force", str(checkout))


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"git {' '.join(arguments)}: {done.stderr.strip()}\n"
            "--against takes a commit of this repository, with its history; --against none "
            "measures this tree alone"
        )
