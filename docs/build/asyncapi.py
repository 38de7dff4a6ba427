"""The AsyncAPI 3.0 document of the topics that other programs write or read.

Payloads, keys and headers come from the types of the JSON Schemas, topics and their configurations
from the settings, and the headers of the examples from the code that sends them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import yaml
from msgspec import UNSET, Meta, Struct, UnsetType, field

from docs.build.schemas import HEADERS, MESSAGES, Published, parts
from worker import __version__
from worker.events import (
    EVENT_TYPES,
    EntityDeleted,
    Message,
    Record,
    change_message,
    tombstone_message,
)
from worker.events.fields import Timestamp
from worker.events.messages import CE_SOURCE
from worker.events.outputs import FACETS_CHANGED, SUMMARY_CHANGED
from worker.events.publishing import FACETS, SUMMARIES
from worker.kafka.topics import topic_specs
from worker.settings import Settings

SETTINGS: Final = Settings(facets="preset:hotels")
RECORD: Final = Record(SETTINGS.input_topic, 3, 991, 1_795_176_000_000, b"B00X", None)
"""The cause of the examples."""
BINDING: Final = "0.5.0"
"""Version of AsyncAPI's bindings of Kafka."""
REFERENCE: Final = "#/components/schemas/{name}"
KEY: Final = "Key"
CLOUD_EVENT: Final = {"$ref": REFERENCE.format(name="CloudEventHeaders")}
SENT: Final = [SUMMARY_CHANGED, FACETS_CHANGED]


class Channel(NamedTuple):
    """A topic, what the worker does with it, its types of values, and the meaning of no value."""

    role: str
    action: str
    description: str
    types: Sequence[str] = ()
    tombstone: str = ""


CHANNELS: Final = {
    "input": Channel(
        "input",
        "receive",
        "Events about reviews (COVERSUMM_INPUT_TOPIC). Unknown fields are ignored.",
        list(EVENT_TYPES.values()),
        "The same as `entity.deleted`.",
    ),
    "summaries": Channel(
        "output",
        "send",
        "Changes of summaries (COVERSUMM_OUTPUT_TOPIC): the latest is the entity's summary.",
        [SUMMARY_CHANGED],
        "The entity was deleted. Compaction removes the key.",
    ),
    "facets": Channel(
        "facets",
        "send",
        "Changes of facets (COVERSUMM_FACETS_TOPIC), if COVERSUMM_FACETS defines any.",
        [FACETS_CHANGED],
        "The entity was deleted. Compaction removes the key.",
    ),
    "deadLetters": Channel(
        "dead letters",
        "send",
        "Records that the worker could not use (COVERSUMM_DLQ_TOPIC), with the reason.",
    ),
}


class CloudEventHeaders(Struct, frozen=True):
    """A CloudEvent in binary mode. All headers are UTF-8 text."""

    id: Annotated[str, Meta(description="A UUID of entity, epoch and sequence.")] = field(
        name="ce_id"
    )
    source: Annotated[str, Meta(extra_json_schema={"const": CE_SOURCE})] = field(name="ce_source")
    type: Annotated[str, Meta(extra_json_schema={"enum": [*SENT, EVENT_TYPES[EntityDeleted]]})] = (
        field(name="ce_type")
    )
    specversion: Annotated[str, Meta(extra_json_schema={"const": "1.0"})] = field(
        name="ce_specversion"
    )
    content_type: Annotated[str, Meta(description="Of the value.")] = field(name="content-type")
    time: Timestamp | UnsetType = field(name="ce_time", default=UNSET)


def asyncapi_yaml() -> str:
    """The text of the document."""
    head = "# Generated from the code by `make docs`.\n"
    return head + yaml.safe_dump(document(), sort_keys=False, allow_unicode=True, width=100)


def document() -> dict[str, Any]:
    """The document. It refers to nothing outside of it."""
    _, schemas = msgspec.json.schema_components([CloudEventHeaders])
    schemas[KEY] = parts(MESSAGES[0], REFERENCE)[0]["properties"]["entity_id"]
    made = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "coversumm-worker",
            "version": __version__,
            "description": "Events about reviews in, the exact current summary of every entity "
            "out. Topics have the names of the default settings, values the form `json` "
            "(COVERSUMM_OUTPUT_FORMAT). Read with `isolation.level=read_committed`.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(channel, schemas) for name, channel in CHANNELS.items()},
        "operations": {
            f"{channel.action}{name[0].upper()}{name[1:]}": _operation(name, channel)
            for name, channel in CHANNELS.items()
        },
        "components": {"schemas": schemas},
    }
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]  # without aliases in YAML


def _channel(channel: Channel, schemas: dict[str, Any]) -> dict[str, Any]:
    """The channel; `schemas` gets the types that its messages refer to."""
    spec = topic_specs(SETTINGS)[channel.role]
    messages = {
        message.name: _of_value(spec.name, message, schemas)
        for message in MESSAGES
        if message.name in channel.types
    }
    if channel.tombstone:
        messages["tombstone"] = _tombstone(spec.name, channel)
    else:
        messages["dead-letter"] = _dead_letter(schemas)
    config = {
        name: int(value) if value.removeprefix("-").isdigit() else [value]
        for name, value in spec.config.items()
    }
    return {
        "address": spec.name,
        "description": channel.description,
        "messages": messages,
        "bindings": _kafka(topic=spec.name, topicConfiguration=config),
    }


def _operation(name: str, channel: Channel) -> dict[str, Any]:
    group = {"type": "string", "description": "COVERSUMM_APP_ID", "default": SETTINGS.app_id}
    of_group = {"bindings": _kafka(groupId=group)} if channel.action == "receive" else {}
    return {
        "action": channel.action,
        "channel": {"$ref": f"#/channels/{name}"},
        **of_group,
    }


def _of_value(topic: str, published: Published, schemas: dict[str, Any]) -> dict[str, Any]:
    body = _with_components(published, schemas)
    examples = [{"payload": example} for example in published.examples]
    if published.name not in SENT:
        return _message(published.name, body, examples)
    sent = _sent(topic, published.name, published.examples[0])
    return _message(published.name, body, [_headers(sent) | examples[0]], CLOUD_EVENT)


def _tombstone(topic: str, channel: Channel) -> dict[str, Any]:
    payload = {"type": "null", "description": channel.tombstone}
    if channel.action == "receive":
        return _message("tombstone", payload, [{"payload": None}])
    kind = FACETS if FACETS_CHANGED in channel.types else SUMMARIES
    sent = tombstone_message(kind, topic, "B00X", 1, None, RECORD)
    return _message("tombstone", payload, [{**_headers(sent), "payload": None}], CLOUD_EVENT)


def _dead_letter(schemas: dict[str, Any]) -> dict[str, Any]:
    original = {"description": "The original bytes.", "type": ["string", "null"]}
    payload = '{"type":"review.deleted","entity_id":"B00X"}'
    examples = [{"headers": example, "payload": payload} for example in HEADERS.examples]
    headers = _with_components(HEADERS, schemas)
    return {
        **_message("dead letter", {**original, "format": "binary"}, examples, headers),
        "contentType": "application/octet-stream",
        "bindings": _kafka(key=original),
    }


def _with_components(published: Published, schemas: dict[str, Any]) -> dict[str, Any]:
    body, components = parts(published, REFERENCE)
    schemas |= components
    return body


def _message(
    title: str,
    payload: dict[str, Any],
    examples: list[dict[str, Any]],
    headers: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "title": title,
        **({} if headers is None else {"headers": headers}),
        "payload": payload,
        "bindings": _kafka(key={"$ref": REFERENCE.format(name=KEY)}),
        "examples": examples,
    }


def _kafka(**binding: Any) -> dict[str, Any]:
    return {"kafka": {**binding, "bindingVersion": BINDING}}


def _sent(topic: str, event_type: str, body: dict[str, Any]) -> Message:
    """A message as the worker sends it."""
    value = msgspec.json.encode(body)
    kind = SUMMARIES if event_type == SUMMARY_CHANGED else FACETS
    entity_id, epoch, time = (body[name] for name in ("entity_id", "epoch", "occurred_at"))
    return change_message(kind, topic, entity_id, epoch, time, value, RECORD)


def _headers(message: Message) -> dict[str, Any]:
    return {"headers": {name: value.decode() for name, value in message.headers}}
