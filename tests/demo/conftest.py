"""`demo` and `serve` as processes whose temporary files are all in one directory."""

import os
import subprocess
import sys

import pytest

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS


class Started:
    """A process of the program."""

    def __init__(self, directory, *arguments, **environment):
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "worker", *arguments],
            env={**os.environ, "TMPDIR": str(directory), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self):
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err

    def children(self):
        """Its worker's process id, by what it was started with."""
        found = subprocess.run(
            ["pgrep", "-f", f"worker.cli.child {self.directory}/"], capture_output=True, text=True
        )
        return [int(pid) for pid in found.stdout.split()]

    def wait_until_nothing_is_left(self):
        def left():
            return [*self.children(), *self.directory.iterdir()]

        eventually(lambda: not left(), left)


@pytest.fixture
def start(tmp_path):
    started = []
    folder = tmp_path / "temporary"
    folder.mkdir()

    def begin(*arguments, **environment):
        started.append(Started(folder, *arguments, **environment))
        return started[-1]

    yield begin
    for process in (worker.process for worker in started):
        process.kill()
        process.communicate()
