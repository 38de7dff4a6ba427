"""The next steps are commands that work where they are printed."""

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from worker.demo.closing import next_steps, own_command, typed_path
from worker.demo.reviews import reviews_file
from worker.view.texts import folded


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in a directory that is not on the path, seen from the directory above."""
    program = tmp_path / "the bin" / "coversumm-worker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return program


def test_found_by_name_where_it_is_on_the_path(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin")
    assert own_command([str(program)], directory=tmp_path) == "coversumm-worker"


def test_another_one_of_that_name_on_the_path_is_not_meant(program, tmp_path, monkeypatch):
    other = tmp_path / "other" / "coversumm-worker"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin")
    assert own_command([str(program)], directory=tmp_path) == "'the bin/coversumm-worker'"


def test_a_path_from_where_the_user_is(program, tmp_path, monkeypatch):
    assert own_command([str(program)], directory=tmp_path) == "'the bin/coversumm-worker'"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert own_command(["the bin/coversumm-worker"]) == "'the bin/coversumm-worker'"
    assert own_command([str(program)], directory=program.parent) == "./coversumm-worker"
    assert own_command([str(program)], directory=Path("/usr")) == f"'{program}'"


def test_the_user_is_where_the_shell_is_not_where_make_went(program, tmp_path, monkeypatch):
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert own_command(["coversumm-worker"]) == "'the bin/coversumm-worker'"
    monkeypatch.setenv("PWD", "/no/such/place")
    assert own_command(["coversumm-worker"]) == "./coversumm-worker"


def test_run_as_a_module(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    started = ["/somewhere/worker/__main__.py", "demo"]
    name = Path(sys.executable).name
    assert own_command(started, directory=tmp_path) == f"{name} -m worker"
    monkeypatch.setenv("PATH", "/nowhere")
    assert own_command(started, "/opt/env/bin/python", tmp_path) == "/opt/env/bin/python -m worker"


def test_a_long_command_is_folded_so_that_a_shell_reads_it_as_one():
    step = "  " + " ".join(["echo", *["word"] * 40])
    lines = folded(step, 60)
    assert max(map(len, lines)) <= 60
    shell = subprocess.run(
        ["sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert shell.stdout.split() == ["word"] * 40


def test_every_step_is_a_command_line_that_is_understood():
    program = f"{sys.executable} -m worker"
    steps = next_steps(program, shlex.quote(str(reviews_file())))
    commands = [one.strip() for step in steps if step[:2] == "  " for one in step.split("&&")]
    assert len(commands) == 1
    for command in commands:
        assert command.startswith(program)
        subprocess.run(["sh", "-c", f"{command} --help"], check=True, stdout=subprocess.DEVNULL)


def test_the_step_that_needs_no_kafka_works(tmp_path):
    lines = gzip.decompress(reviews_file().read_bytes()).splitlines(keepends=True)
    file = tmp_path / "some reviews.jsonl"
    file.write_bytes(b"".join(lines[:20]))
    (summarize,) = [
        step
        for step in next_steps(f"{sys.executable} -m worker", typed_path(file))
        if " summarize " in step
    ]
    done = subprocess.run(["sh", "-c", summarize], capture_output=True, text=True, check=True)
    assert re.search(r"^location +\d+ mentions? +\S", done.stdout, re.M)
