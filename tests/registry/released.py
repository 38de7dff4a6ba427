"""The Avro schemas of every released version, which later ones must be able to read (BACKWARD)."""

import json
from pathlib import Path

from worker.registry.contract import TYPES, schema_text

FOLDER = Path(__file__).with_name("released")
"""A release copies `schemas/avro` to a folder of its version. That of a version that is not
released yet may be renewed.
"""


def released() -> list[tuple[str, str, str]]:
    """Version, type and schema of each."""
    return [
        (path.parent.name, path.stem, path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("*/*.avsc"))
    ]


def incompatible(name: str) -> str:
    """The present schema of a type with a new field that has no default."""
    schema = json.loads(schema_text(TYPES[name]))
    schema["fields"].append({"name": "needed", "type": "string"})
    return json.dumps(schema)
