"""Flat rows are the JSON messages with nested values as JSON text, and readers take both."""

import base64
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from struct import pack

import pytest

from tests.harness.small_load import DIMENSION, FACETS, events
from worker.events import FacetsChanged, Message, Record, SummaryChanged
from worker.events.codec import decode_change
from worker.events.json_row import NESTED, to_json
from worker.facets.definitions import read_definitions
from worker.processing.config import processor_config
from worker.processing.in_memory import ProcessorInMemory
from worker.registry.output import AvroOutput
from worker.settings import Settings

PLAIN = FACETS["COVERSUMM_FACETS"]
SIDED = """
languages = ["en", "fr"]
[polarity]
good_vectors = [{good}]
bad_vectors = [{bad}]
margin = 0.01
[[facet]]
name = "all"
within_days = 36500
sides = true
[[facet]]
name = "some"
rating = {{ max = 3 }}
"""


def avro_of(facets: str) -> AvroOutput:
    """The codec of these facets."""
    return AvroOutput({SummaryChanged: 7, FacetsChanged: 8}, read_definitions(facets).unused)


def rated(value: bytes | None, rating: int) -> bytes | None:
    """The event with this rating, if it is a review."""
    return value and value.replace(b'"rating": null', b'"rating": %d' % rating)


@cache
def messages(output_format: str, emit: str = "every", facets: str = PLAIN) -> list[Message]:
    """Those of summaries and facets."""
    settings = Settings(
        embedder="none",
        dimension=DIMENSION,
        k=5,
        facets=facets,
        max_message_bytes=2**23,
        output_format=output_format,
        schema_registry_url="http://registry:8081",
    )
    output = avro_of(facets) if output_format == "avro" else None
    config = replace(processor_config(settings, 1, None, output=output), emit=emit)
    processor = ProcessorInMemory(config, None)
    load = [
        Record("reviews", 0, at, 0, event.key, rated(event.value, at % 5 + 1))
        for at, event in enumerate(events(100))
    ]
    made = [message for batch in processor.process(load) for message in batch.messages]
    return [message for message in made if message.topic != config.dlq_topic]


@pytest.mark.parametrize("emit", ["every", "coalesced"])
def test_rows_are_the_json_messages_with_text_for_nested_values(emit: str) -> None:
    plain, rows = messages("json", emit), messages("json-row", emit)
    assert len(plain) == len(rows) > 10
    kinds = set()
    for message, row in zip(plain, rows, strict=True):
        assert message._replace(value=None) == row._replace(value=None)
        assert (message.value is None) == (row.value is None)
        if message.value is None or row.value is None:
            continue
        body, fields = json.loads(message.value), json.loads(row.value)
        assert list(body) == list(fields)
        assert not any(isinstance(value, dict | list) for value in fields.values())
        nested = {name for name in fields if name in NESTED}
        assert fields | {name: json.loads(fields[name]) for name in nested} == body
        assert to_json(row.value) == to_json(message.value) == message.value
        kinds.add(body["type"])
    assert kinds == {"summary.changed", "facets.changed"}


@pytest.mark.parametrize("is_sided", [False, True])
@pytest.mark.parametrize("emit", ["every", "coalesced"])
def test_avro_messages_are_the_json_messages(emit: str, is_sided: bool, tmp_path: Path) -> None:
    facets = PLAIN
    if is_sided:
        vectors = [base64.b64encode(pack("<f", x) * DIMENSION).decode() for x in (1, -1)]
        (tmp_path / "facets.toml").write_text(
            SIDED.format(good=json.dumps(vectors[0]), bad=json.dumps(vectors[1]))
        )
        facets = str(tmp_path / "facets.toml")
    codec = avro_of(facets)
    plain, packed = messages("json", emit, facets), messages("avro", emit, facets)
    assert len(plain) == len(packed) > 10
    kinds = set()
    for message, other in zip(plain, packed, strict=True):
        assert message[:3] == other[:3]
        if message.value is None or other.value is None:
            assert message == other
            continue
        assert codec.to_json(other.value) == message.value
        assert codec.encode(decode_change(message.value)) == other.value
        assert dict(other.headers) == dict(message.headers) | {"content-type": b"application/avro"}
        kinds.add(other.value[:5])
    assert kinds == {b"\0\0\0\0\7", b"\0\0\0\0\x08"}
    of_facets = [
        json.loads(message.value)["facets"]
        for message in plain
        if b"facets.changed" in (message.value or b"")
    ]
    names = [
        {name for facet in facets for name in ("pros", "cons") if facet.get(name)}
        for facets in of_facets
    ]
    assert set().union(*names) & {"pros", "cons"}
