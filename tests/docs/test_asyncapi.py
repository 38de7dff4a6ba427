"""The AsyncAPI document: its examples are valid, and it has every message of every topic."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from docs.build.asyncapi import asyncapi_yaml, document
from docs.build.render import ROOT
from docs.build.schemas import MESSAGES
from worker.kafka.topics import topic_specs
from worker.settings import Settings

DOCUMENT = document()
FOUND = {
    (channel, name): message
    for channel, body in DOCUMENT["channels"].items()
    for name, message in body["messages"].items()
}


def valid(schema: dict[str, Any], value: Any) -> bool:
    """By a schema of the document, which refers to others of it."""
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema | {"components": DOCUMENT["components"]}).is_valid(value)


def test_the_file_is_the_document() -> None:
    text = (ROOT / "docs" / "reference" / "asyncapi.yaml").read_text("utf-8")
    assert text == asyncapi_yaml(), "run `make docs`"
    assert yaml.safe_load(text) == DOCUMENT


@pytest.mark.parametrize("place", FOUND, ids="/".join)
def test_examples_are_valid(place: tuple[str, str]) -> None:
    message = FOUND[place]
    assert message["examples"]
    for example in message["examples"]:
        assert valid(message["payload"], example["payload"])
        assert example.keys() == message.keys() & {"headers", "payload"}
        if "headers" in example:
            assert valid(message["headers"], example["headers"])
            for name in example["headers"]:
                rest = {other: example["headers"][other] for other in example["headers"]}
                del rest[name]
                assert valid(message["headers"], rest) == (name == "ce_time")
    assert not valid(message["payload"], {"type": "review.hidden"})
    key = message["bindings"]["kafka"]["key"]
    assert valid(key, "B00X")
    assert not valid(key, 7)


def test_every_topic_but_the_changelog_has_its_messages() -> None:
    specs = topic_specs(Settings(facets="preset:hotels"))
    topics = {body["address"]: body["messages"].keys() for body in DOCUMENT["channels"].values()}
    assert topics.keys() == {spec.name for role, spec in specs.items() if role != "changelog"}
    assert {name for names in topics.values() for name in names} == {
        *(message.name for message in MESSAGES),
        "tombstone",
        "dead-letter",
    }
    actions = {name: operation["action"] for name, operation in DOCUMENT["operations"].items()}
    assert actions == {
        "receiveInput": "receive",
        "sendSummaries": "send",
        "sendFacets": "send",
        "sendDeadLetters": "send",
    }
