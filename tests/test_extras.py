"""The printed command installs what an extra needs, wherever the worker is installed."""

import os
import shlex
import subprocess
import sys
from importlib import metadata

import pytest

from worker import extras
from worker.extras import install_command


@pytest.mark.long
def test_the_command_runs_as_printed():
    """No index is needed here, where the libraries are installed already."""
    command = install_command("otel")
    done = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = shlex.split(command)[4:]
    assert wanted
    for requirement in wanted:
        assert f"Requirement already satisfied: {requirement}" in done.stdout


def test_an_extra_has_exactly_its_own_libraries():
    python, *words = shlex.split(install_command("sentence-transformers"))
    assert (python, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert words[3:] == ["sentence-transformers==6.2.0"]


def test_a_checkout_that_is_not_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", missing)
    assert install_command("otel").endswith(" -m pip install '.[otel]'")
