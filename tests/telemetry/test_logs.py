"""Log lines: one object or one line each, libraries quiet unless DEBUG is asked for."""

import io
import json
import logging
import re
import sys
from datetime import datetime

import pytest

from worker.settings import Settings
from worker.telemetry.logs import LIBRARIES, PROTOCOL_LOGS, set_up_logging
from worker.view import output


@pytest.fixture
def logged(capsys):
    """Set logging up, let something happen, and give what was written to standard error."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in (*LIBRARIES, *PROTOCOL_LOGS)}
    for name in LIBRARIES:  # a command that ran in this process may have quietened them
        logging.getLogger(name).setLevel(logging.NOTSET)

    def logged(act, **settings):
        set_up_logging(Settings(**settings))
        act()
        return capsys.readouterr().err

    yield logged
    logging.captureWarnings(False)
    root.handlers[:], root.level = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _act():
    logging.getLogger("worker.stream").info("restored %d rows", 7)
    logging.getLogger("faust.app").info("chatter")
    logging.getLogger("librdkafka").warning("broker down")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("worker").exception("failed")


def test_text(logged):
    lines = logged(_act).splitlines()
    assert lines[0].endswith("Z INFO worker.stream: restored 7 rows")
    assert lines[1].endswith("WARNING librdkafka: broker down")
    assert lines[-1] == "ValueError: why"


def test_json(logged):
    entries = [json.loads(line) for line in logged(_act, log_format="json").splitlines()]
    assert [(e["level"], e["logger"], e["message"]) for e in entries] == [
        ("INFO", "worker.stream", "restored 7 rows"),
        ("WARNING", "librdkafka", "broker down"),
        ("ERROR", "worker", "failed"),
    ]
    assert entries[2]["exception"].endswith("ValueError: why")
    assert datetime.fromisoformat(entries[0]["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("DEBUG", {"chatter", "Authenticated", "broker down"}),
        ("INFO", {"broker down"}),
        ("ERROR", set()),
    ],
)
def test_libraries(logged, level, seen):
    """With SASL connections say something whenever they are made again."""

    def act():
        _act()
        logging.getLogger("aiokafka.conn").info("Authenticated as worker")

    lines = logged(act, log_level=level)
    assert {line for line in ("chatter", "Authenticated", "broker down") if line in lines} == seen


SECRET = "pass'word \"with\\\\ sïgns"
ACCESS = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "worker",
    "sasl_password": SECRET,
}


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("written", [str, repr, json.dumps, lambda secret: repr(secret.encode())])
def test_no_line_shows_a_secret_whoever_wrote_it(logged, written, log_format):
    """Plainly, in a repr, in JSON, as bytes; in a message, an argument, a traceback; at DEBUG."""

    def act():
        logging.getLogger("aiokafka").debug("sending %s to somebody", written(SECRET))
        try:
            raise ValueError(written(SECRET))
        except ValueError:
            logging.getLogger("worker").exception(written(SECRET))

    lines = logged(act, **ACCESS, log_level="DEBUG", log_format=log_format)
    assert "sending" in lines
    assert "***" in lines
    assert "pass" not in lines
    if log_format == "json":
        assert all(json.loads(line)["level"] for line in lines.splitlines())


def test_requests_as_they_go_to_the_broker_are_never_logged(logged):
    """They hold events, and the password of SASL PLAIN."""
    for name in PROTOCOL_LOGS:
        assert "bytes" not in logged(
            lambda name=name: logging.getLogger(name).debug("bytes"), log_level="DEBUG"
        )


def test_a_line_is_written_above_a_progress_bar(monkeypatch):
    """The handler is older than the bar; written to the terminal itself, it overwrites the bar."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    hint = f"broker down; `{'NAME=value ' * 10}coversumm-worker dlq list`"
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up_logging(Settings())
    with output.file_progress(10) as progress:
        progress.update(5, 5)
        logging.getLogger("worker").warning(hint)
    logging.captureWarnings(False)
    lines = re.split(r"\r|\n", terminal.getvalue())
    (line,) = (line for line in lines if "broker down" in line)
    assert "━" not in line
    assert hint in line, "a command that a line break splits does not run as printed"
    after = terminal.getvalue().partition(f"{hint}\n")[2]
    assert "events" in after, "the bar is drawn again below it"
