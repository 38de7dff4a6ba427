"""What a replay says of the time that is left, for programs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from worker.cli.replay_process import LINE_SECONDS, ProgressLines, run_command
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


def line(estimate, now, done):
    return estimate.line(now, "offsets", done, 10_000, {"read": done})


def test_while_it_starts_nothing_is_foretold():
    estimate = ProgressLines(100.0, 500)
    for now in (100.0, 101.0, 107.0):
        progress = line(estimate, now, 500)
        assert (progress["offsets_per_s"], progress["seconds_left"]) == (0.0, None)
    assert progress["seconds"] == 7.0


def test_how_long_it_took_to_start_does_not_count():
    """Neither does what was done before it was started again."""
    estimate = ProgressLines(100.0, 500)
    line(estimate, 120.0, 500)
    assert line(estimate, 121.0, 600)["seconds_left"] is None
    for seconds in range(1, 10):
        progress = line(estimate, 121.0 + seconds, 600 + 50 * seconds)
        assert progress["offsets_per_s"] == 50.0
        assert progress["seconds_left"] == pytest.approx((10_000 - progress["offsets"]) / 50)


def test_the_rate_is_that_of_the_later_half():
    """After a slow start, what is left is soon foretold by how fast it has become."""
    estimate, done = ProgressLines(0.0, 0), 0
    for second in range(1, 41):
        done += 10 if second <= 10 else 100
        progress = line(estimate, float(second), done)
    assert progress["offsets_per_s"] == 100.0


def test_the_first_lines_come_soon_and_later_ones_seldom():
    estimate, now, times = ProgressLines(0.0, 0), 0.0, []
    while now < 600:
        times.append(now)
        line(estimate, now, 0)
        now += estimate.pause()
    assert sum(1 for at in times if at <= 10) >= 5
    assert times[-1] - times[-2] == LINE_SECONDS
