"""Generated files of the Helm chart: the schema of its values, the workers' defaults, and copies of
alerts and dashboard.

The chart can read only files in its own folder. `deploy/` has the source of each copy.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from docs.build.chart_values import VALUES
from docs.build.tables import markdown
from worker.settings import PREFIX, Setting, settings_by_field
from worker.settings.fields import Fields

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
CHART: Final = DEPLOY / "chart"
COPIED: Final = ("alerts.yml", "dashboard.json")
OF_KAFKA: Final = {
    "bootstrap_servers": "bootstrapServers",
    "input_topic": "inputTopics",
    "output_topic": "outputTopic",
    "dlq_topic": "errorTopic",
    "app_id": "applicationId",
}
"""Settings with a value of their own under `kafka`, by field. All others are under `commandLine`
and `secretRefs`.
"""
# Different for each worker, so it must contain the pod's name.
_OF_THE_POD: Final = {
    "instance_id": r"^[A-Za-z0-9._-]*\$\(POD_NAME\)[A-Za-z0-9._-]*$",
    "web_advertised_url": r"^https?://.*\$\(POD_NAME\)",
}
_REFERENCE: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "key": {"type": "string", "minLength": 1},
    },
    "required": ["name", "key"],
    "additionalProperties": False,
}


def chart_files() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of every generated file in the chart."""
    yield (
        CHART / "values.schema.json",
        json.dumps(values_schema(), indent=2, ensure_ascii=False) + "\n",
    )
    yield CHART / "files" / "defaults.yaml", defaults()
    for name in COPIED:
        if (DEPLOY / name).exists():
            yield CHART / "files" / name, (DEPLOY / name).read_text(encoding="utf-8")


def values_schema() -> dict[str, Any]:
    """The JSON Schema of the chart's values. It rejects unknown values and settings."""
    settings = settings_by_field()
    command_line = {
        _short(one): _of_setting(field, one)
        for field, one in settings.items()
        if field not in OF_KAFKA and not one.secret
    }
    replayed = {
        name: schema for name, schema in command_line.items() if name not in _shorts(_OF_THE_POD)
    }
    references = {
        _short(one): _REFERENCE for field, one in settings.items() if field != "bootstrap_servers"
    }
    overriding = {"commandLine": _closed(replayed), "secretRefs": _closed(references)}
    inserted = {
        "kafka": _closed({value: _of_kafka(field, value) for field, value in OF_KAFKA.items()}),
        "commandLine": _closed(command_line),
        "secretRefs": _closed(references),
        "bridge": _closed(VALUES["bridge"]["properties"] | overriding),
        "replay": _closed(VALUES["replay"]["properties"] | overriding),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "coversumm-worker",
        **_closed({**VALUES, **inserted, "global": {"type": "object"}}),
    }


def defaults() -> str:
    """The settings' defaults by variable without prefix, for what the chart derives from them."""
    known = {
        _short(one): value
        for field, one in settings_by_field().items()
        if isinstance(value := getattr(Fields, field), int | str)
        and value != ""
        and field not in OF_KAFKA
    }
    return "# Generated from worker/settings/fields.py by `make docs`.\n" + yaml.safe_dump(
        known, sort_keys=False
    )


def values_table() -> str:
    """All values with their defaults and the comments of `values.yaml`."""
    rows = (
        (f"`{name}`", f"`{json.dumps(value)}`", meaning)
        for name, value, meaning in _documented((CHART / "values.yaml").read_text(encoding="utf-8"))
    )
    return markdown(("value", "default", "meaning"), rows)


def _documented(text: str) -> Iterator[tuple[str, Any, str]]:
    """Path, default and meaning of every value. A group's comment belongs to its first value."""
    defaults, path, comment = dict(_leaves(yaml.safe_load(text))), list[str](), ""
    for line in text.split("\n\n", 1)[1].splitlines():
        if match := re.fullmatch(r" *# (.*)", line):
            comment = f"{comment} {match[1]}".strip()
        elif match := re.fullmatch(r"( *)(\w+):.*", line):
            path = [*path[: len(match[1]) // 2], match[2]]
            if (name := ".".join(path)) in defaults:
                yield name, defaults[name], comment
                comment = ""


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _of_setting(field: str, one: Setting) -> dict[str, Any]:
    schema = (
        {"type": "string", "pattern": _OF_THE_POD[field]}
        if field in _OF_THE_POD
        else one.kind.schema
    )
    return {"description": one.help, **schema}


def _of_kafka(field: str, value: str) -> dict[str, Any]:
    one = settings_by_field()[field]
    schema = dict(one.kind.schema)
    if value == "inputTopics":
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
    elif field == "dlq_topic":
        schema["pattern"] = schema["pattern"].replace("{1,", "{0,")
    return {"description": one.help, **schema}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _short(one: Setting) -> str:
    return one.variable.removeprefix(PREFIX)


def _shorts(fields: Mapping[str, Any]) -> set[str]:
    return {_short(settings_by_field()[field]) for field in fields}
