"""The pages with their generated tables as the code and the records have them now."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from docs.build import schemas
from docs.build.asyncapi import asyncapi_yaml
from docs.build.chart import values_table
from docs.build.copies import RECORDED as COPIES
from docs.build.dashboard.grafana import dashboard_json
from docs.build.facets import JUDGED
from docs.build.facets import RECORDED as FACETS
from docs.build.limits import limits_table
from docs.build.numbers import numbers_table
from docs.build.openapi import addresses_table, openapi_yaml, parameters_table
from docs.build.quality import RECORDED as QUALITY
from docs.build.replays import replays_table
from docs.build.scale import first_build_table, pauses_table, rates_table
from docs.build.storm import storm_table
from docs.build.support import RECORDED as SUPPORT
from docs.build.tables import commands_table, metrics_table, settings_table
from tests.bench.peers.table import cold_peers_table, peers_table, streams_table
from tests.bench.tables import (
    core_table,
    embed_table,
    engines_table,
    facets_table,
    memory_table,
    paper_intervals,
    paper_quick_table,
    paper_summaries,
    paper_table,
    scale_table,
    text_line,
    worker_table,
)
from tests.harness.record import cluster_table, faults_table
from worker.registry.contract import TYPES, schema_text

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
"""Columns of prose."""
TABLES: dict[str, Mapping[str, Callable[[], str]]] = {
    "docs/reference/commands.md": {"commands": commands_table},
    "docs/reference/http.md": {"addresses": addresses_table, "parameters": parameters_table},
    "docs/reference/settings.md": {"settings": settings_table},
    "docs/reference/limits.md": {"limits": limits_table},
    "docs/reference/metrics.md": {"metrics": metrics_table},
    "docs/reference/chart.md": {"values": values_table},
    "docs/scale.md": {
        "rates": rates_table,
        "build": first_build_table,
        "pauses": pauses_table,
    },
    "docs/quality.md": {**QUALITY, **FACETS, **SUPPORT},
    "docs/facets.md": JUDGED,
    "docs/choosing.md": COPIES,
    "docs/reference/results.md": {
        "numbers": numbers_table,
        "core": core_table,
        "worker": worker_table,
        "facets": facets_table,
        "peers": peers_table,
        "peers_cold": cold_peers_table,
        "embed": embed_table,
        "engines": engines_table,
        "text": text_line,
        "memory": memory_table,
        "scale": scale_table,
        "faults": faults_table,
        "cluster": cluster_table,
        "kafka_streams": streams_table,
        "storm": storm_table,
        "replays": replays_table,
        "paper": paper_table,
        "paper_quick": paper_quick_table,
        "paper_intervals": paper_intervals,
        "paper_summaries": paper_summaries,
    },
}


def pages() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of every page with generated tables."""
    for name, tables in TABLES.items():
        path = ROOT / name
        yield path, filled(path.read_text(encoding="utf-8"), tables)


def schema_files() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of every JSON Schema, and of the AsyncAPI and OpenAPI documents."""
    for name, text in schemas.schemas().items():
        yield ROOT / "schemas" / name, text
    yield ROOT / "docs" / "reference" / "asyncapi.yaml", asyncapi_yaml()
    yield ROOT / "docs" / "reference" / "openapi.yaml", openapi_yaml()


def avro_files() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of every Avro schema."""
    for name, kind in TYPES.items():
        yield ROOT / "schemas" / "avro" / f"{name}.avsc", schema_text(kind)


def dashboard_files() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of the Grafana dashboard."""
    yield ROOT / "deploy" / "chart" / "files" / "dashboard.json", dashboard_json()


def filled(text: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The text with every table in its place. Raises ValueError unless each has exactly one."""
    for name, table in tables.items():
        block = f"<!-- {name} -->\n{wrapped(table().rstrip())}\n<!-- /{name} -->"
        text, found = re.subn(
            rf"<!-- {name} -->\n.*?<!-- /{name} -->", lambda _, block=block: block, text, flags=re.S
        )
        if found != 1:
            raise ValueError(f"{found} places for the {name} table")
    return text


def wrapped(text: str) -> str:
    """The text with its prose at 100 columns; tables, code and indented lines stay."""
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        if is_code or len(line) <= WIDTH or line.startswith(("|", " ", "#", "<", "!")):
            lines.append(line)
        else:
            indent = "  " if line.startswith("- ") else ""
            lines += textwrap.wrap(
                line,
                WIDTH,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
