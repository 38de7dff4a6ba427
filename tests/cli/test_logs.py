"""Log lines: one object or one line each, libraries quiet unless DEBUG is asked for."""

import json
import logging
from datetime import datetime

import pytest

from worker.cli.logs import LIBRARIES, set_up_logging
from worker.settings import Settings


@pytest.fixture
def told(capsys):
    """Set logging up, let something happen, and give what was written to standard error."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in LIBRARIES}
    for name in LIBRARIES:  # a command that ran in this process may have quietened them
        logging.getLogger(name).setLevel(logging.NOTSET)

    def told(act, **settings):
        set_up_logging(Settings(**settings))
        act()
        return capsys.readouterr().err

    yield told
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


def test_text(told):
    lines = told(_act).splitlines()
    assert lines[0].endswith("Z INFO worker.stream: restored 7 rows")
    assert lines[1].endswith("WARNING librdkafka: broker down")
    assert lines[-1] == "ValueError: why"


def test_json(told):
    entries = [json.loads(line) for line in told(_act, log_format="json").splitlines()]
    assert [(e["level"], e["logger"], e["message"]) for e in entries] == [
        ("INFO", "worker.stream", "restored 7 rows"),
        ("WARNING", "librdkafka", "broker down"),
        ("ERROR", "worker", "failed"),
    ]
    assert entries[2]["exception"].endswith("ValueError: why")
    assert datetime.fromisoformat(entries[0]["time"]).tzinfo is not None


@pytest.mark.parametrize(("level", "seen"), [("DEBUG", True), ("INFO", False), ("ERROR", False)])
def test_libraries(told, level, seen):
    assert ("chatter" in told(_act, log_level=level)) == seen


def test_errors_alone(told):
    assert "broker down" not in told(_act, log_level="ERROR")
