"""A real Prometheus on 127.0.0.1 that scrapes workers and evaluates the alerting rules."""

from __future__ import annotations

import json
import math
import re
import signal
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.harness.node import free_port
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import Process

PROGRAM = "prometheus"
SCRAPE_SECONDS = 1


class Sample(NamedTuple):
    """A series' value, with its labels."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """Scrapes every second. `targets` are web ports by job; `rules` a file of alerting rules."""

    def __init__(self, directory: Path, targets: Mapping[str, Sequence[int]], rules: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process = Process(directory / "prometheus.log")
        jobs = [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
            }
            for job, ports in targets.items()
        ]
        seconds = f"{SCRAPE_SECONDS}s"
        config = {
            "global": {
                "scrape_interval": seconds,
                "scrape_timeout": seconds,
                "evaluation_interval": seconds,
            },
            "rule_files": [str(rules)],
            "scrape_configs": jobs,
        }
        directory.mkdir(parents=True)
        (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML

    def __enter__(self) -> Self:
        command = [
            PROGRAM,
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        self._process.launch(command)
        self._process.wait_until(self._is_ready)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.signal(signal.SIGTERM)
        self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/-/ready", timeout=2
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]

    def now(self, expr: str) -> list[Sample]:
        """The values of an expression; those that are no number are left out."""
        found = [
            Sample(series["metric"], float(series["value"][1])) for series in self._vector(expr)
        ]
        return [sample for sample in found if math.isfinite(sample.value)]

    def _vector(self, expr: str) -> Any:
        return self._ask("query", query=expr)["result"]

    def over_time(
        self, expr: str, start_s: float, end_s: float, step_s: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Each series of an expression, with its times (Unix) and values."""
        times = {"start": str(start_s), "end": str(end_s), "step": str(step_s)}
        series = self._ask("query_range", query=expr, **times)["result"]
        return [
            (line["metric"], [(at, float(value)) for at, value in line["values"]])
            for line in series
        ]

    def rules(self) -> list[dict[str, Any]]:
        """The alerting rules as it evaluated them: `health`, `state` and `lastError` among the
        fields.
        """
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]


def filled_in(expr: str, window: str, **variables: str) -> str:
    """A dashboard's expression as Grafana sends it: the job looked at, all instances, and the
    window of its rates.
    """
    values = {"instance": ".+", "__rate_interval": window, **variables}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)


def operands(expr: str) -> Iterator[str]:
    """What an alert combines by `and`, `or` and `unless`, with comparisons that say 0 or 1 where an
    alert's drop the series.

    So each has data whether or not it would fire; promtool proves elsewhere when it does.
    """
    asked = re.sub(r" ([<>]=?|==) (?=[\d.])", r" \1 bool ", " ".join(expr.split()))
    depth, start = 0, 0
    for found in re.finditer(r"[()]|\b(?:and|or|unless)\b(?: on \([\w, ]*\))? ?", asked):
        if found[0] in "()":
            depth += 1 if found[0] == "(" else -1
        elif depth == 0:
            yield asked[start : found.start()].strip()
            start = found.end()
    yield asked[start:].strip()
