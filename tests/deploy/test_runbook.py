"""Alerts and runbook speak of what there is: metrics, settings, commands, exit codes and reasons of
this code.
"""

import ast
import re
from pathlib import Path

import pytest
import yaml

from tests.deploy.series import SERIES
from worker.cli.group import INTERRUPTED
from worker.errors import Crash, Fenced, SetupError
from worker.events import Reason
from worker.settings import settings_by_field
from worker.telemetry.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RUNBOOK = (DEPLOY / "RUNBOOK.md").read_text()
ALERTS = (DEPLOY / "chart" / "files" / "alerts.yml").read_text()
RULES = [rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
HEADINGS = re.findall(r"^#+ (.+)$", RUNBOOK, flags=re.M)
DOCUMENTS = [RUNBOOK, ALERTS]


def anchor(heading: str) -> str:
    """The heading's anchor as Markdown renderers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_alert_has_its_section() -> None:
    assert RULES
    for rule in RULES:
        assert rule["alert"] in HEADINGS
        assert rule["annotations"]["runbook_url"] == f"RUNBOOK.md#{anchor(rule['alert'])}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_section_of_the_alerts_has_its_alert() -> None:
    sections = RUNBOOK.split("\n## Alerts\n")[1].split("\n## ")[0]
    assert re.findall(r"^### (.+)$", sections, flags=re.M) == [rule["alert"] for rule in RULES]


def test_every_exit_code_has_its_section() -> None:
    codes = {0, 1, SetupError.exit_code, Crash.exit_code, Fenced.exit_code, INTERRUPTED}
    assert {f"Exit code {code}" for code in codes} == {
        name for name in HEADINGS if name.startswith("Exit code ")
    }


@pytest.mark.parametrize("text", DOCUMENTS)
def test_every_metric_exists(text: str) -> None:
    known = {family.name + end for family in Metrics().families for end in SERIES[family.kind]}
    known |= {family.name for family in Metrics().families}
    named = set(re.findall(r"\bcoversumm_\w+", text))
    assert named
    assert named <= known


def test_every_setting_exists() -> None:
    known = {setting.variable for setting in settings_by_field().values()}
    named = set(re.findall(r"\b(COVERSUMM_[A-Z_]+)\b", RUNBOOK))
    short = {f"COVERSUMM{name}" for name in re.findall(r"`(_[A-Z_]+)`", RUNBOOK)}
    assert named
    assert named | short <= known


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    section = RUNBOOK.split("### CoversummDeadLetters")[1].split("\n### ")[0]
    explained = set(re.findall(r"`([a-z_]+)`", section))
    assert {reason.value for reason in Reason} <= explained


def test_every_quoted_line_is_said_somewhere() -> None:
    section = RUNBOOK.split("### Exit code 2")[1].split("\n### ")[0]
    quoted = [
        text
        for row in re.findall(r"^\| (`[^|]+)\|", section, flags=re.M)
        for text in re.findall(r"`(.+?)`", row)
    ]
    said = [
        node.value
        for source in (DEPLOY.parent / "worker").rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert quoted
    assert [text for text in quoted if not any(text in line for line in said)] == []
