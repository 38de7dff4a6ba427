"""Every ending of a command has its exit code and at most one line; nothing heavy is loaded to get
there.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.harness.debezium import written
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from worker import __version__
from worker.cli.group import cli
from worker.errors import Crash, Fenced, SetupError
from worker.settings.environment import limit_native_threads

COMMAND = [sys.executable, "-m", "worker"]
NO_TEXT = b"\xff".decode(errors="surrogateescape")


@pytest.fixture
def failing(monkeypatch, run):
    """Run a command that raises this."""

    def failing(error):
        def raises():
            raise error

        monkeypatch.setitem(cli.commands, "failing", click.Command("failing", callback=raises))
        return run("failing")

    return failing


@pytest.mark.parametrize(
    ("error", "code"), [(SetupError("set this"), 2), (Crash("oh\nno"), 3), (Fenced("two of us"), 4)]
)
def test_our_errors_are_one_line(failing, error, code):
    ended = failing(error)
    assert ended.code == code
    assert ended.err == f"coversumm-worker: error: {' '.join(str(error).split())}\n"
    assert ended.out == ""


def test_anything_else_is_a_crash_with_a_traceback(failing):
    ended = failing(ZeroDivisionError("by zero"))
    assert ended.code == 3
    assert "Traceback" in ended.err
    assert ended.err.endswith("coversumm-worker: error: ZeroDivisionError: by zero\n")


def test_interrupt(failing):
    assert failing(KeyboardInterrupt()) == (130, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["run", "--fast"],
        ["send"],
        ["summarize", "/no/file"],
        ["dlq", "find"],
        ["dlq", "show", "7"],
        ["dlq", "list", "--since", "yesterday"],
        ["dlq", "send", "1:x"],
        ["entities", "a", "b"],
        ["entities", "--limit", "0"],
        ["entities", "--url", "worker:8080"],
        ["entities", NO_TEXT],
        ["inspect", NO_TEXT],
        ["inspect", "e", "--url", "worker:8080"],
        ["inspect", "e", "--reviews", "--history"],
        ["inspect", "e", "--reviews", "--url", "http://127.0.0.1:1"],
        ["inspect", "e", "--view", "short", "--reviews"],
        ["inspect", "e", "--view", "facets", "--history"],
    ],
)
def test_usage(run, arguments):
    ended = run(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("coversumm-worker: error: ")
    assert "--help`" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["topics"],
        ["send", __file__],
        ["summarize", __file__],
        ["verify"],
        ["dlq", "list"],
        ["dlq", "show", "0:0"],
        ["dlq", "send"],
        ["reset"],
        ["inspect", "e", "--reviews"],
        ["inspect", "e", "--history"],
        ["history", "e"],
        ["compare", "one", "other"],
    ],
)
def test_bad_settings(run, monkeypatch, command):
    monkeypatch.setenv("COVERSUMM_K", "many")
    ended = run(*command)
    assert ended.code == 2
    assert ended.err.startswith("coversumm-worker: error: COVERSUMM_K: 'many'")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command", [["run"], ["summarize", __file__]])
def test_an_index_without_its_library(run, monkeypatch, command):
    monkeypatch.setenv("COVERSUMM_INDEX", "graphgrove")
    monkeypatch.setitem(sys.modules, "graphgrove", None)
    ended = run(*command)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        "coversumm-worker: error: COVERSUMM_INDEX=graphgrove: graphgrove cannot be "
    )
    assert ended.err.endswith("; or set COVERSUMM_INDEX=sgtree\n")
    assert ended.err.count("\n") == 1


def test_version(run):
    assert run("--version") == (0, f"coversumm-worker, version {__version__}\n", "")


def test_nothing_heavy_is_imported_for_the_help_of_any_command():
    heavy = {"numpy", "faust", "confluent_kafka", "onnxruntime", "rocksdict", "msgspec", "rich"}
    program = f"""
import sys
from worker.cli.group import cli, execute
def ask(command, *words):
    execute([*words, "--help"])
    for name, sub in getattr(command, "commands", {{}}).items():
        ask(sub, *words, name)
ask(cli)
print(sorted({heavy!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_native_threads_are_limited_unless_set(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.setenv("MKL_NUM_THREADS", "")
    monkeypatch.delenv("MKL_NUM_THREADS")
    limit_native_threads()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert os.environ["MKL_NUM_THREADS"] == "1"


@pytest.mark.parametrize("command", ["run", "bridge --from shop.public.reviews"])
def test_sigterm_while_a_start_waits_for_its_brokers(command, tmp_path):
    environment = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "COVERSUMM_MAPPING": str(written(tmp_path)) if "bridge" in command else "",
        "COVERSUMM_DATA_DIR": str(tmp_path / "data"),
        "COVERSUMM_EMBEDDER": "none",
    }
    with subprocess.Popen([*COMMAND, *command.split()], env=environment) as process:
        eventually(lambda: catches(process.pid, signal.SIGTERM), lambda: "it catches no SIGTERM")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0


def catches(pid, number):
    """Whether a process has a handler of a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s+(\w+)", status)[1], 16)
    return bool(caught >> (number - 1) & 1)


@pytest.mark.parametrize("module", ["click", "worker.cli.group"])
def test_ctrl_c_amid_the_first_imports(module):
    """At these moments Python would show where it was, line by line."""
    program = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from worker.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_interpreter_is_not_taken_apart_under_native_threads():
    program = (
        "import atexit, os\natexit.register(os._exit, 99)\nfrom worker.cli import main\nmain()"
    )
    for argument, code in (("--version", 0), ("no-such-command", 2)):
        done = subprocess.run(
            [sys.executable, "-c", program, argument], capture_output=True, text=True, check=False
        )
        assert done.returncode == code
        assert "coversumm-worker" in done.stdout + done.stderr, "all of it is written"


def test_ctrl_c_that_a_native_module_makes_an_error_of_its_own_of(failing):
    error = ImportError("initialization failed")
    error.__cause__ = KeyboardInterrupt()
    assert failing(error) == (130, "", "")


FULL = "coversumm-worker: error: standard output cannot be written (No space left on device)\n"
CLOSED = "coversumm-worker: error: standard output is closed: pipe it somewhere\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--help", "--version", "config", "demo --reviews 1"])
def test_a_full_disk_under_standard_output(command, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    assert (done.returncode, done.stderr) == (2, FULL)


@pytest.mark.parametrize(
    ("command", "error"), [("config", CLOSED), ("demo", CLOSED), ("topics", None)]
)
def test_no_standard_output(command, error):
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, command]
    environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert error in (None, done.stderr)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_letters_that_the_locale_has_not(encoding):
    """In a pipe all is UTF-8: an emoji ended the command."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    program = "from worker.view import output; output.prepare(); output.print_json('häuser 🏠')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert (done.returncode, done.stdout.decode()) == (0, '"häuser 🏠"\n')
