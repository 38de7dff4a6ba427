"""Flat rows are the JSON messages with nested values as JSON text, and readers take both."""

import json
from dataclasses import replace

import pytest

from tests.harness.small_load import DIMENSION, FACETS, events
from worker.events import FacetsChanged, Message, Record, SummaryChanged
from worker.events.codec import decode_change
from worker.events.json_row import NESTED, to_json
from worker.events.publishing import TOPICS
from worker.page.watchers import _of_one
from worker.processing.config import processor_config
from worker.processing.in_memory import ProcessorInMemory
from worker.published.publication import publications
from worker.registry.output import AvroOutput
from worker.settings import Settings

AVRO = AvroOutput({SummaryChanged: 7, FacetsChanged: 8})


def messages(output_format: str, emit: str = "every") -> list[Message]:
    """Those of summaries and facets."""
    settings = Settings(
        embedder="none",
        dimension=DIMENSION,
        k=5,
        facets=FACETS["COVERSUMM_FACETS"],
        output_format=output_format,
        schema_registry_url="http://registry:8081",
    )
    output = AVRO if output_format == "avro" else None
    config = replace(processor_config(settings, 1, None, output=output), emit=emit)
    processor = ProcessorInMemory(config, None)
    load = [Record("reviews", 0, at, 0, one.key, one.value) for at, one in enumerate(events(150))]
    made = [one for batch in processor.process(load) for one in batch.messages]
    return [one for one in made if one.topic != config.dlq_topic]


@pytest.mark.parametrize("emit", ["every", "coalesced"])
def test_rows_are_the_json_messages_with_text_for_nested_values(emit: str) -> None:
    plain, rows = messages("json", emit), messages("json-row", emit)
    assert len(plain) == len(rows) > 10
    kinds = set()
    for one, row in zip(plain, rows, strict=True):
        assert one._replace(value=None) == row._replace(value=None)
        assert (one.value is None) == (row.value is None)
        if one.value is None or row.value is None:
            continue
        body, fields = json.loads(one.value), json.loads(row.value)
        assert list(body) == list(fields)
        assert not any(isinstance(value, dict | list) for value in fields.values())
        nested = {name for name in fields if name in NESTED}
        assert fields | {name: json.loads(fields[name]) for name in nested} == body
        assert to_json(row.value) == to_json(one.value) == one.value
        kinds.add(body["type"])
    assert kinds == {"summary.changed", "facets.changed"}


def test_readers_take_both_forms() -> None:
    for one in messages("json-row"):
        if one.value is None:
            continue
        plain = to_json(one.value)
        assert decode_change(one.value) == decode_change(plain)
        record = Record("summaries", 0, 1, 2, one.key, one.value)
        kind = TOPICS[one.topic != "marketplace.review-summaries.v1"]
        found = publications(record, kind=kind)
        assert found == publications(record._replace(value=plain), kind=kind)
        assert _of_one("change", (1, [one])) == _of_one("change", (1, [one._replace(value=plain)]))


@pytest.mark.parametrize("emit", ["every", "coalesced"])
def test_avro_messages_are_the_json_messages(emit: str) -> None:
    plain, packed = messages("json", emit), messages("avro", emit)
    assert len(plain) == len(packed) > 10
    kinds = set()
    for one, other in zip(plain, packed, strict=True):
        assert one[:3] == other[:3]
        if one.value is None or other.value is None:
            assert one == other
            continue
        assert AVRO.to_json(other.value) == one.value
        assert AVRO.encode(decode_change(one.value)) == other.value
        assert dict(other.headers) == dict(one.headers) | {"content-type": b"application/avro"}
        kinds.add(other.value[:5])
    assert kinds == {b"\0\0\0\0\7", b"\0\0\0\0\x08"}
