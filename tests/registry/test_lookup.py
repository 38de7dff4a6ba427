"""When schemas are asked for, and what becomes of records until they are known."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.harness.fake_clients import FakeClock
from tests.registry.framing import frame, framed
from worker.events import Record
from worker.events.reasons import BadEvent
from worker.registry.client import (
    TIMEOUT_SECONDS,
    RegistryMisconfigured,
    RegistryRefused,
    RegistryUnreachable,
    SchemaTexts,
)
from worker.registry.lookup import AGAIN_SECONDS, GRACE_SECONDS, SchemaLookup

TEXT = '"string"'


class Registry:
    """A registry as the lookup asks it."""

    def __init__(self) -> None:
        self.known: dict[int, SchemaTexts] = {}
        self.refusal: Exception | None = None
        self.asked: list[int] = []
        self.outage: Exception | None = None

    def ask(self) -> None:
        if self.outage is not None:
            raise self.outage

    def schema(self, identifier: int) -> SchemaTexts | None:
        self.asked.append(identifier)
        if self.refusal is not None and identifier not in self.known:
            raise self.refusal
        return self.known.get(identifier)


@pytest.fixture
def registry() -> Any:
    return Registry()


@pytest.fixture
def lookup(registry: Any, clock: FakeClock) -> SchemaLookup:
    return SchemaLookup(registry, clock)


def record(value: bytes | None, key: bytes | None = None) -> Record:
    return Record("t", 0, 0, 0, key, value)


def test_an_id_is_asked_for_once(lookup: SchemaLookup, registry: Registry) -> None:
    registry.known = {7: SchemaTexts(TEXT, "AVRO", ()), 8: SchemaTexts("{}", "JSON", ())}
    records = [record(frame(7)), record(frame(7)), record(frame(8)), record(b"{}"), record(None)]
    records += [record(b"\0\0"), record(b""), record(b"x", frame(9)), record(bytes(20))]
    records += [record(frame(10))._replace(headers=[("apicurio.value.globalId", bytes(8))])]
    assert lookup.missing(records) == [7, 8]
    lookup.fetch([7, 8])
    assert lookup.missing(records) == []
    assert registry.asked == [7, 8]
    assert lookup.codec.unframe(framed(7, "string", "a")) == "a"
    assert lookup.codec.unframe(frame(8) + b"[1]") == [1]


def test_keys_have_ids_where_a_mapping_says_so(registry: Any) -> None:
    lookup = SchemaLookup(registry, in_values=False, in_keys=True)
    assert lookup.missing([record(frame(7), frame(9)), record(frame(8))]) == [9]


def test_a_registry_that_does_not_answer_is_waited_for(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    registry.refusal = RegistryUnreachable("http://a: refused")
    for _ in range(3):
        lookup.fetch([7])
        clock.sleep(25)
    assert lookup.missing([record(frame(7))]) == [7]
    assert lookup.waiting == "no answer of the schema registry for 50 s (http://a: refused)"
    assert [line.levelname for line in caplog.records] == ["WARNING"]  # once a minute
    registry.refusal, registry.known = None, {7: SchemaTexts(TEXT, "AVRO", ())}
    lookup.fetch([7])
    assert (lookup.waiting, lookup.missing([record(frame(7))])) == (None, [])
    assert caplog.messages[-1] == "the schema registry answers again, after 75 s"


def test_an_unknown_id_is_refused_after_a_while_and_asked_for_again_later(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock
) -> None:
    records = [record(frame(7))]
    lookup.fetch([7])
    assert lookup.missing(records) == [7]
    assert lookup.waiting is None  # other records are not kept from anybody
    clock.sleep(GRACE_SECONDS)
    lookup.fetch([7])
    assert lookup.missing(records) == []
    with pytest.raises(BadEvent) as refused:
        lookup.codec.decode(frame(7))
    assert refused.value.rejected.detail == "schema id 7: the registry does not know it"
    clock.sleep(AGAIN_SECONDS + 1)
    assert lookup.missing(records) == [7]
    lookup.fetch([7])  # no second grace
    assert lookup.missing(records) == []
    clock.sleep(AGAIN_SECONDS + 1)
    registry.known = {7: SchemaTexts(TEXT, "AVRO", ())}
    lookup.fetch([7])
    clock.sleep(2 * AGAIN_SECONDS)
    assert lookup.missing(records) == []
    assert lookup.codec.unframe(framed(7, "string", "a")) == "a"


@pytest.mark.parametrize("outage", [None, RegistryRefused(40401, "no such path")])
def test_a_refusal_of_any_form_is_one_of_the_id_while_the_registry_answers(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock, outage: Exception | None
) -> None:
    records = [record(frame(7)), record(framed(8, "string", "a"))]
    registry.refusal, registry.outage = RegistryMisconfigured("404 Not Found"), outage
    registry.known = {8: SchemaTexts(TEXT, "AVRO", ())}
    lookup.fetch([7, 8])
    assert (lookup.missing(records), lookup.waiting) == ([7], None)
    clock.sleep(GRACE_SECONDS)
    lookup.fetch([7])
    assert lookup.missing(records) == []
    with pytest.raises(BadEvent, match="schema id 7: 404 Not Found"):
        lookup.codec.decode(frame(7))


def test_a_refusal_is_waited_for_while_the_registry_answers_nothing_else(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock
) -> None:
    registry.refusal = registry.outage = RegistryMisconfigured("404 Not Found")
    for _ in range(3):
        lookup.fetch([7])
        clock.sleep(GRACE_SECONDS)
    assert lookup.missing([record(frame(7))]) == [7]
    assert lookup.waiting is not None


def test_an_id_that_no_registry_gives_is_refused_at_once(lookup: SchemaLookup) -> None:
    records = [record(frame(identifier)) for identifier in (2**31 - 1, 2**31, 2**32 - 1)]
    assert lookup.missing(records) == [2**31 - 1]
    for refused in records[1:]:
        with pytest.raises(BadEvent, match="is not a zero byte and a schema id"):
            lookup.codec.decode(refused.value or b"")


def test_a_refused_reference_has_the_same_grace(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock
) -> None:
    records = [record(framed(7, "string", "a"))]
    registry.refusal = RegistryRefused(40402, "Version 2 not found.")
    lookup.fetch([7])
    assert lookup.missing(records) == [7]
    clock.sleep(GRACE_SECONDS)
    lookup.fetch([7])
    assert lookup.missing(records) == []
    with pytest.raises(BadEvent, match="schema id 7: Version 2 not found"):
        lookup.codec.decode(records[0].value or b"")
    clock.sleep(AGAIN_SECONDS + 1)
    registry.refusal, registry.known = None, {7: SchemaTexts(TEXT, "AVRO", ())}
    assert lookup.missing(records) == [7]
    lookup.fetch([7])
    assert lookup.codec.unframe(records[0].value or b"") == "a"


def test_a_slow_registry_is_named_while_records_wait(
    lookup: SchemaLookup, registry: Registry, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer comes in time, all of them do not."""
    waiting = []

    def slow(_: int) -> SchemaTexts:
        clock.sleep(TIMEOUT_SECONDS - 1)
        waiting.append(lookup.waiting)
        return SchemaTexts(TEXT, "AVRO", ())

    monkeypatch.setattr(registry, "schema", slow)
    lookup.fetch([7, 8])
    assert waiting == [None, "the schema registry takes 4 s and more for schema id 8"]
    assert lookup.waiting is None


def test_few_unknown_ids_are_remembered(
    lookup: SchemaLookup, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.registry.lookup.MAX_UNKNOWN", 2)
    lookup.fetch([1, 2, 3])
    clock.sleep(GRACE_SECONDS)
    lookup.fetch([1, 2, 3])
    assert lookup.missing([record(frame(identifier)) for identifier in (1, 2, 3)]) == [1]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (SchemaTexts("", "PROTOBUF", ()), "PROTOBUF is neither Avro nor JSON Schema"),
        (SchemaTexts('{"type":"array","items":"null"}', "AVRO", ()), "too few bytes"),
        (RegistryRefused(0, "it refers to more than 200 schemas"), "more than 200"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_once(
    lookup: SchemaLookup, registry: Registry, found: Any, words: str
) -> None:
    if isinstance(found, Exception):
        registry.refusal = found
    else:
        registry.known = {7: found}
    lookup.fetch([7])
    assert lookup.missing([record(frame(7))]) == []
    with pytest.raises(BadEvent) as refused:
        lookup.codec.decode(frame(7))
    assert refused.value.rejected.reason == "bad_wire_format"
    assert words in refused.value.rejected.detail
