"""The alerting rules: what they say to series that Prometheus may have, and where their links lead
once they are rendered.
"""

from __future__ import annotations

import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.build.alerts import SOURCE, main, rendered
from tests.deploy.chart import only, render
from tests.deploy.matrix import MATRIX
from tests.harness.patience import PATIENCE_SECONDS

URL = "https://wiki.example.com/ops/RUNBOOK.md"
CASES = Path(__file__).with_name("alerts_test.yml")


def _rules(text: str) -> list[dict[str, dict[str, str]]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_rendered_links_are_absolute_and_nothing_else_is_changed(tmp_path: Path) -> None:
    target = tmp_path / "new" / "alerts.yml"
    assert main([URL, str(target)]) == 0
    made, given = _rules(target.read_text()), _rules(SOURCE.read_text())
    links, relative = (
        [rule["annotations"].pop("runbook_url") for rule in rules] for rules in (made, given)
    )
    assert links == [link.replace("RUNBOOK.md", URL, 1) for link in relative]
    assert all(link.startswith(f"{URL}#coversumm") for link in links)
    assert made == given


def test_without_a_file_they_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([URL]) == 0
    assert capsys.readouterr().out == rendered(SOURCE.read_text(), URL)


@pytest.mark.parametrize(
    "url", ["", "RUNBOOK.md", "wiki/RUNBOOK.md", "https://", f"{URL}#top", f"{URL} x"]
)
def test_what_is_no_address_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([url]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "https://wiki.example.com/RUNBOOK.md" in told.err


def test_without_an_address_the_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "RUNBOOK_URL=" in capsys.readouterr().err


def _minutes(time: str) -> int:
    return int(time[:-1]) * {"m": 1, "h": 60}[time[-1]]


def _stages(case: dict[str, Any], alert: str) -> list[bool]:
    """Whether a case wants the alert to be there, look by look."""
    looks = [look for look in case["alert_rule_test"] if look["alertname"] == alert]
    return [
        bool(look["exp_alerts"])
        for look in sorted(looks, key=lambda look: _minutes(look["eval_time"]))
    ]


@pytest.mark.parametrize("alert", [rule["alert"] for rule in _rules(SOURCE.read_text())])
def test_every_alert_has_a_case_in_which_it_is_quiet_then_fires_and_then_stops(alert: str) -> None:
    stages = [_stages(case, alert) for case in yaml.safe_load(CASES.read_text())["tests"]]
    assert any([look for look, _ in groupby(seen)] == [False, True, False] for seen in stages), (
        stages
    )


OF_TWO_RELEASES = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'coversumm_build_info{namespace="reviews", job="reviews/shop-coversumm-worker", component="worker"}'
        values: "1x10 stale"
      - series: 'coversumm_build_info{namespace="reviews", job="reviews/shop-2-coversumm-worker", component="worker"}'
        values: "1x50"
      - series: 'coversumm_ready{namespace="reviews", job="reviews/shop-2-coversumm-worker"}'
        values: "0x50"
    alert_rule_test:
      - {alertname: CoversummNotReady, eval_time: 30m, exp_alerts: []}
      - alertname: CoversummDown
        eval_time: 30m
        exp_alerts:
          - exp_labels: {namespace: reviews, job: reviews/shop-coversumm-worker, release: shop, severity: page}
            exp_annotations:
              summary: no worker of reviews/shop-coversumm-worker has answered for 5 minutes
              runbook_url: https://wiki.example.com/RUNBOOK.md#coversummdown
"""  # noqa: E501


@pytest.mark.helm
@pytest.mark.promtool
def test_rules_of_a_release_speak_of_no_other(tmp_path: Path) -> None:
    rules, cases = tmp_path / "rules.yml", tmp_path / "cases.yml"
    rules.write_text(yaml.safe_dump(only(render(MATRIX["monitored"]), "PrometheusRule")["spec"]))
    cases.write_text(OF_TWO_RELEASES.replace("RULES", str(rules)))
    _promtool("check", "rules", rules)
    _promtool("test", "rules", cases)


@pytest.mark.promtool
def test_the_rules_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("RULES", str(SOURCE)))
    _promtool("check", "rules", SOURCE)
    _promtool("test", "rules", cases)


def _promtool(*arguments: str | Path) -> None:
    command = ["promtool", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
