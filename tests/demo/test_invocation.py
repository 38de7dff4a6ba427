"""The next steps are commands that work where they are printed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.node import free_port
from worker.demo.closing import next_steps, own_command, typed_path
from worker.view.texts import folded


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in a directory that is not on the path, started from the directory above."""
    program = tmp_path / "the bin" / "coversumm-worker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program)])
    return program


def test_by_name_if_it_is_the_one_on_the_path_else_by_its_path(program, tmp_path, monkeypatch):
    assert own_command() == "'the bin/coversumm-worker'"
    monkeypatch.setenv("PWD", str(program.parent))  # there a bare name is no program
    assert own_command() == f"'{program}'"
    monkeypatch.chdir(program.parent)  # as `make -C` does
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["coversumm-worker"])
    assert own_command() == "'the bin/coversumm-worker'"
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin")
    assert own_command() == "coversumm-worker"
    monkeypatch.setattr(sys, "argv", ["/somewhere/worker/__main__.py", "demo"])
    assert own_command() == f"{typed_path(Path(sys.executable))} -m worker"


def test_a_long_command_is_folded_so_that_a_shell_reads_it_as_one():
    step = "  " + " ".join(["echo", *["word"] * 40])
    lines = folded(step, 60)
    assert max(map(len, lines)) <= 60
    shell = subprocess.run(
        ["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert shell.stdout.split() == ["word"] * 40


def test_the_step_that_needs_no_kafka_works(monkeypatch):
    monkeypatch.setenv("COVERSUMM_WEB_PORT", str(free_port()))
    (serve,) = [step for step in next_steps() if step.startswith("  ")]
    command = ["sh", "-c", f"exec {serve}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if line.startswith("the page: http://127.0.0.1:"):
                    process.send_signal(signal.SIGINT)
        finally:
            process.kill()
    assert line == "ended; everything is removed again\n"
