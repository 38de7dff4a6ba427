"""The alerting rules: what they say to series that Prometheus may have."""

from __future__ import annotations

import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.observed import RULES
from tests.harness.patience import PATIENCE_SECONDS

CASES = Path(__file__).with_name("alerts_test.yml")


def _rules(text: str) -> list[dict[str, dict[str, str]]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def _minutes(time: str) -> int:
    return int(time[:-1]) * {"m": 1, "h": 60}[time[-1]]


def _stages(case: dict[str, Any], alert: str) -> list[bool]:
    """Whether a case wants the alert to be there, look by look."""
    looks = [look for look in case["alert_rule_test"] if look["alertname"] == alert]
    return [
        bool(look["exp_alerts"])
        for look in sorted(looks, key=lambda look: _minutes(look["eval_time"]))
    ]


@pytest.mark.parametrize("alert", [rule["alert"] for rule in _rules(RULES.read_text())])
def test_every_alert_has_a_case_in_which_it_is_quiet_then_fires_and_then_stops(alert: str) -> None:
    stages = [_stages(case, alert) for case in yaml.safe_load(CASES.read_text())["tests"]]
    assert any([look for look, _ in groupby(seen)] == [False, True, False] for seen in stages), (
        stages
    )


@pytest.mark.promtool
def test_the_rules_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("RULES", str(RULES)))
    _promtool("check", "rules", RULES)
    _promtool("test", "rules", cases)


def _promtool(*arguments: str | Path) -> None:
    command = ["promtool", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
