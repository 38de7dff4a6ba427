"""Avro out: joined parts are the bytes of the complete record, and readers have it as JSON."""

from __future__ import annotations

import io
import logging
from typing import Any

import fastavro
import pytest
from msgspec import structs, to_builtins

from tests.harness.bodies import BODY
from tests.registry.served import served
from worker.errors import SetupError
from worker.events import FacetsChanged, Record, SummaryChanged
from worker.events.codec import decode_change
from worker.events.json_codec import encode
from worker.registry import client
from worker.registry.client import ATTEMPTS
from worker.registry.contract import avro_schema, schema_text
from worker.registry.lookup import AsJson
from worker.registry.output import AvroOutput, avro_output, register_schemas
from worker.settings import Settings

AVRO = AvroOutput({SummaryChanged: 7, FacetsChanged: 8})


def whole(body: Any) -> bytes:
    """A complete body, written by fastavro."""
    stream = io.BytesIO()
    members = to_builtins(body)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(avro_schema(type(body))), members)
    return stream.getvalue()


def test_a_message_is_a_complete_record() -> None:
    assert AVRO.encode(BODY)[5:] == whole(BODY)
    assert AVRO.to_json(AVRO.encode(BODY)) == encode(BODY)


def test_a_set_may_have_more_sentences_than_numbers_are_prepared_for() -> None:
    sentences = [
        structs.replace(BODY.sentences[0], rank=rank, support=10 * rank + 1) for rank in range(2000)
    ]
    body = structs.replace(BODY, sentences=sentences)
    assert AVRO.encode(body)[5:] == whole(body)


ADDRESS = "COVERSUMM_SCHEMA_REGISTRY_URL"


def test_a_worker_starts_with_registered_schemas_only() -> None:
    with served() as registry:
        settings = Settings(
            output_format="avro",
            output_topic="out",
            facets="preset:stays",
            facets_topic="facets",
            schema_registry_url=registry.url,
        )
        subject = "the schema registry has no SummaryChanged of this version under out-value"
        with pytest.raises(SetupError, match=f"{subject}.*schemas register"):
            avro_output(settings)
        registry.given["POST /subjects/out-value"] = (200, {"id": 258})
        registry.given["POST /subjects/facets-value"] = (200, {"id": 9})
        made = avro_output(settings)
        assert made is not None
        assert made.encode(BODY)[:5] == b"\0\0\0\1\2"
        what, _, body = registry.requests[-1]
        assert (what, body) == (
            "POST /subjects/facets-value",
            {"schema": schema_text(FacetsChanged, {"language"})},
        )
        registry.given["POST /subjects/facets-value"] = lambda sent: (
            (200, {"id": 9})
            if sent["schema"] == schema_text(FacetsChanged)
            else (404, {"error_code": 40403, "message": "Schema not found"})
        )
        assert avro_output(settings) is not None
        assert avro_output(Settings()) is None
    with pytest.raises(SetupError, match="COVERSUMM_OUTPUT_FORMAT: avro needs"):
        Settings(output_format="avro")


def test_a_start_waits_for_a_registry_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with served() as registry:
        path = "POST /subjects/out-value"
        settings = Settings(
            output_format="avro", output_topic="out", schema_registry_url=registry.url
        )
        pauses = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2 * ATTEMPTS:
                registry.given[path] = (200, {"id": 258})

        monkeypatch.setattr(client.time, "sleep", pause)
        registry.given[path] = (503, b"")
        assert avro_output(settings) is not None
        assert len(pauses) == 2 * ATTEMPTS
        waits, answers = caplog.messages
        assert waits.startswith("no answer of the schema registry for 0 s (http://127.0.0.1:")
        assert waits.endswith("): not ready until it answers, nothing is lost until then")
        assert answers.startswith("the schema registry answers again, after")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error_code": 40101, "message": "who?"}, "401 who.: check COVERSUMM_SCHEMA_REGIST"),
        (404, b"<html>", "404 Not Found.*check COVERSUMM_SCHEMA_REGISTRY_URL"),
        (200, b"<html>", "the answer is not JSON"),
        (422, {"error_code": 42201, "message": "bad"}, "refuses the request: .*bad"),
    ],
)
def test_a_start_does_not_wait_for_what_waiting_does_not_change(
    monkeypatch: pytest.MonkeyPatch, status: int, body: Any, words: str
) -> None:
    monkeypatch.setattr(client, "PAUSE_SECONDS", 0)
    with served() as registry:
        registry.given["POST /subjects/out-value"] = (status, body)
        settings = Settings(
            output_format="avro", output_topic="out", schema_registry_url=registry.url
        )
        with pytest.raises(SetupError, match=words):
            avro_output(settings)


def test_schemas_are_registered_once_and_refused_ones_say_why() -> None:
    with served() as registry:
        settings = Settings(output_topic="out", schema_registry_url=registry.url)
        (row,) = register_schemas(settings, dry_run=True)
        assert row[1:] == ("SummaryChanged", "compatible", None)
        registry.given["POST /subjects/out-value/versions"] = (200, {"id": 3})
        (row,) = register_schemas(settings, dry_run=False)
        assert row == ("out-value", "SummaryChanged", "registered", 3)
        path = "POST /compatibility/subjects/out-value/versions/latest?verbose=true"
        registry.given[path] = (200, {"is_compatible": False, "messages": ["k: no default"]})
        (row,) = register_schemas(settings, dry_run=False)
        assert (row.status, row.id) == ("k: no default", None)


def test_readers_have_it_as_json() -> None:
    record = Record("out", 0, 5, 0, b"e", AVRO.encode(BODY))
    with pytest.raises(SetupError, match=f"offset 5 of out .0. is Avro: set {ADDRESS}"):
        AsJson(Settings())(record)
    plain = record._replace(value=encode(BODY))
    assert AsJson(Settings())(plain) is plain
    with served() as registry:
        registry.given["GET /schemas/ids/7"] = (200, {"schema": schema_text(SummaryChanged)})
        registry.given["GET /schemas/ids/1"] = (200, {"schema": '"string"'})
        as_json = AsJson(Settings(schema_registry_url=registry.url))
        assert as_json(record) == as_json(record) == plain
        assert decode_change(as_json(record).value or b"") == BODY
        for value, words in ((b"\0\0\0\0\2", "does not know it"), (b"\0\0\0\0\1\2a", "neither")):
            with pytest.raises(SetupError, match=words):
                as_json(record._replace(value=value))
        assert len(registry.requests) == 3
