"""The dashboard: made by code, current, and about everything that a worker measures."""

from __future__ import annotations

import json
import re

from tests.deploy.series import DASHBOARD, EXPRESSIONS, PANELS, SERIES
from worker.telemetry.metrics import Metrics

# Of the process, by the library of the metrics.
FOREIGN = {
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_start_time_seconds",
}


def test_every_metric_is_on_it() -> None:
    named = set(re.findall(r"\b(?:coversumm|process)_\w+", " ".join(EXPRESSIONS)))
    for family in Metrics().families:
        assert named & {family.name + end for end in SERIES[family.kind]}, (
            f"{family.name} is not shown"
        )


def test_every_metric_on_it_exists() -> None:
    named = set(re.findall(r"\b(?:coversumm|process)_\w+", " ".join(EXPRESSIONS)))
    known = {family.name + end for family in Metrics().families for end in SERIES[family.kind]}
    assert named - known == FOREIGN


def test_every_query_is_of_the_chosen_workers() -> None:
    """By job and instance, or of a replay by its job; nothing else is chosen, and no choice is
    unused.
    """
    chosen = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS)))
    assert used - {"__rate_interval"} == chosen == {"datasource", "job", "instance", "replay"}
    for expression in EXPRESSIONS:
        for selector in re.findall(r"\b(?:coversumm|process)_\w+(.)", expression):
            assert selector == "{", f"of all workers: {expression}"
        for matchers in re.findall(r"\{([^}]*)\}", expression):
            assert matchers.startswith(('job=~"$job", instance=~"$instance"', 'job=~"$replay"'))


def test_a_panel_says_what_it_shows() -> None:
    for panel in PANELS:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title
        assert all(target["legendFormat"] for target in panel["targets"]), title


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
