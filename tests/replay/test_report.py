"""What a replay says of the time that is left, for programs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from worker.replay.report import run_command
from worker.replay.request import ReplayIdentity, Request
from worker.settings import Settings

SETTINGS = {
    "COVERSUMM_EPOCH": "2",
    "COVERSUMM_K": "10",
    "COVERSUMM_EMBEDDER": "none",
    "COVERSUMM_DIMENSION": "3",
    "COVERSUMM_SASL_MECHANISM": "PLAIN",
    "COVERSUMM_SASL_USERNAME": "a user",
    "COVERSUMM_SASL_PASSWORD": "secret",
    "COVERSUMM_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
}


def resume_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **settings: str
) -> dict[str, str]:
    """The variables in the command of a report, as a shell reads them."""
    for variable, text in {**SETTINGS, **settings, "COVERSUMM_DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(variable, text)
    live = Settings.from_environment()
    command = run_command(
        ReplayIdentity(live, Request(name="two", topic=live.input_topic, to_topic="out"))
    )
    *words, program, verb = shlex.split(command)
    assert (program, verb) == ("coversumm-worker", "run")
    return dict(word.split("=", 1) for word in words)


def test_the_command_that_goes_on_has_every_setting_that_is_not_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The state depends on epoch and k. What is computed is computed again, and no
    secret is shown.
    """
    found = resume_variables(monkeypatch, tmp_path)
    assert int(found.pop("COVERSUMM_WEB_PORT")) > Settings().web_port
    assert found == {
        **{name: text for name, text in SETTINGS.items() if "PASSWORD" not in name},
        "COVERSUMM_APP_ID": "coversumm-worker-replay-two",
        "COVERSUMM_OUTPUT_TOPIC": "out",
        "COVERSUMM_DATA_DIR": str(tmp_path / "replay-two"),
    }


def test_the_command_that_goes_on_has_what_the_live_worker_would_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = {
        "COVERSUMM_WEB_PORT": "9999",
        "COVERSUMM_DLQ_TOPIC": "letters",
        "COVERSUMM_INSTANCE_ID": "worker-3",
        "COVERSUMM_WEB_ADVERTISED_URL": "http://here:9999",
    }
    found = resume_variables(monkeypatch, tmp_path, **own)
    assert {name: found[name] for name in own} == own
