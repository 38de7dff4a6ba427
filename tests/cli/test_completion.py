"""Completion as a shell asks for it, and in the shells that are on this machine, at a
real prompt.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.harness.terminal import Terminal
from tests.harness.workers import ROOT, clean_environment
from worker.cli.group import COMPLETE, cli

SHELLS = ("bash", "zsh", "fish")
HERE = [shell for shell in SHELLS if shutil.which(shell)]
"""One that is not here cannot be asked; its script and its form of the answers are
looked at below.
"""


@pytest.fixture
def path(tmp_path):
    """A PATH with `coversumm-worker` on it, of this tree."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "coversumm-worker"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m worker "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


@pytest.fixture
def ask(run, monkeypatch):
    """What is offered for the last word of a command line that is being typed."""

    def ask(*words, shell="bash"):
        monkeypatch.setenv(COMPLETE, f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["coversumm-worker", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        ended = run()
        assert (ended.code, ended.err) == (0, "")
        return ended.out.splitlines()

    return ask


def test_commands(ask):
    assert ask("") == [f"plain,{name}" for name in cli.commands]
    assert ask("su") == ["plain,summarize"]
    assert set(ask("dlq", "s")) == {"plain,send", "plain,show"}


def test_options_choices_and_files(ask):
    assert ask("dlq", "list", "--li") == ["plain,--limit"]
    assert set(ask("summarize", "--emit", "")) == {"plain,every", "plain,coalesced"}
    assert ask("summarize", "rev") == ["file,rev"]
    assert ask("verify", "--data-dir", "/v") == ["dir,/v"]


def test_reason_codes(ask):
    assert ask("dlq", "list", "--reason", "bad_") == [
        "plain,bad_json",
        "plain,bad_wire_format",
        "plain,bad_field",
        "plain,bad_vector",
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_others_have_the_help_beside_it(ask, shell):
    answer = "\n".join(ask("insp", shell=shell))
    assert "inspect" in answer
    assert "An entity's summary" in answer


@pytest.mark.parametrize(
    "asked", ["bash_complete", "bash_what", "tcsh_complete", "", "bash_source "]
)
def test_a_question_that_makes_no_sense_disturbs_nothing(run, monkeypatch, asked):
    monkeypatch.setenv(COMPLETE, asked)
    monkeypatch.setenv("COMP_WORDS", "'")
    monkeypatch.delenv("COMP_CWORD", raising=False)
    assert run() == (1, "", "")


PROMPTS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        f'eval "$({COMPLETE}=bash_source coversumm-worker)"',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        f'autoload -Uz compinit; compinit -u -D; eval "$({COMPLETE}=zsh_source coversumm-worker)"',
    ),
    "fish": (["fish", "--no-config", "-i"], f"{COMPLETE}=fish_source coversumm-worker | source"),
}


@pytest.mark.parametrize("shell", HERE)
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("summ", "coversumm-worker summarize "),
        ("dlq li", "coversumm-worker dlq list "),
        ("verify --data-", "coversumm-worker verify --data-dir "),
        ("summarize --emit coal", "coversumm-worker summarize --emit coalesced "),
        ("send revi", "coversumm-worker send reviews-of-mine.jsonl "),
    ],
)
def test_at_a_prompt(tmp_path, path, shell, typed, completed):
    (tmp_path / "reviews-of-mine.jsonl").touch()
    command, installation = PROMPTS[shell]
    environment = {
        "PATH": path,
        "HOME": str(tmp_path),
        "TERM": "dumb" if shell == "bash" else "xterm",
        "PS1": "> ",
    }
    with Terminal(command, cwd=tmp_path, environment=clean_environment(environment)) as prompt:
        prompt.type(f"{installation}; echo in''stalled\n")
        prompt.wait_for("installed")
        prompt.type(f"coversumm-worker {typed}\t")
        prompt.wait_for(completed)


def test_an_answer_needs_nothing_heavy(path):
    """So it is there at once; NumPy alone takes a twentieth of a second."""
    program = (
        "import sys; from worker.cli.group import execute; execute([]); "
        "print(sorted({'numpy', 'faust', 'confluent_kafka', 'onnxruntime', 'rocksdict', 'rich', "
        "'aiohttp'} & set(sys.modules)))"
    )
    environment = {
        COMPLETE: "bash_complete",
        "COMP_WORDS": "coversumm-worker summarize --emit c",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain,coalesced" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
