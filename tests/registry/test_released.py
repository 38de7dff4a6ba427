"""Readers of this version read what every released version wrote. A real registry is asked in
`tests/real_kafka/test_registry.py`.
"""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from fastavro.utils import generate_many

from tests.registry.released import FOLDER, incompatible, released
from worker import __version__
from worker.registry.contract import TYPES, schema_text


def test_the_schemas_of_this_version_are_kept() -> None:
    kept = {path.stem for path in (FOLDER / __version__).glob("*.avsc")}
    assert kept == set(TYPES), f"copy schemas/avro to {FOLDER.name}/{__version__}"


def read(schema: str, name: str, reader: str) -> None:
    """Read values of an older schema as a reader of a newer one does."""
    old, new = (fastavro.parse_schema(json.loads(text)) for text in (schema, reader))
    for value in generate_many(old, 5):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, old, value)
        stream.seek(0)
        found = fastavro.schemaless_reader(stream, old, new)
        assert isinstance(found, dict)


@pytest.mark.parametrize(("version", "name", "schema"), released())
def test_it_is_read(version: str, name: str, schema: str) -> None:
    read(schema, name, schema_text(TYPES[name]))
    with pytest.raises(fastavro.read.SchemaResolutionError):
        read(schema, name, incompatible(name))
