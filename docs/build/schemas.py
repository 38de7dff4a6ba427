"""The published JSON Schemas (2020-12, and for registries draft-07), generated from the types of
bodies, summaries and views (`make docs`).

They are the same for every worker, so they do not check limits (dimension, model, sizes) or the
Kafka key.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, field

from worker.events.inputs import EntityDeleted, ReviewDeleted, SentencesDeleted, UpsertBody
from worker.events.outputs import ALGORITHM, FacetsChanged, SummaryChanged
from worker.events.reasons import Reason
from worker.processing.entity_view import FacetsView, Overview, ShortView, SummaryView

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"

_Number = Annotated[str, Meta(pattern="^[0-9]+$(?!\\n)")]


class DeadLetterHeaders(Struct, frozen=True):
    """The headers of a dead letter, whose key and value are the original bytes. All of them are
    UTF-8 text.
    """

    reason: Annotated[Reason, Meta(description="Why the record was not applied.")] = field(
        name="dlq.reason"
    )
    detail: Annotated[str, Meta(description="One line for people; names the field at fault.")] = (
        field(name="dlq.detail")
    )
    topic: Annotated[str, Meta(description="Where the record was read.")] = field(
        name="dlq.source.topic"
    )
    partition: _Number = field(name="dlq.source.partition")
    offset: _Number = field(name="dlq.source.offset")
    version: Annotated[str, Meta(description="Version of the worker that refused it.")] = field(
        name="dlq.worker.version"
    )
    truncated: (
        Annotated[
            _Number,
            Meta(description="Bytes cut off a value too large for the topic; 64 KiB are left."),
        ]
        | None
    ) = field(name="dlq.truncated_bytes", default=None)
    truncated_key: Annotated[_Number, Meta(description="The same for a key.")] | None = field(
        name="dlq.truncated_key_bytes", default=None
    )
    dropped: (
        Annotated[
            _Number,
            Meta(
                description="How many headers of the record were dropped, because the message "
                "would have been too large; absent if none were.",
            ),
        ]
        | None
    ) = field(name="dlq.dropped_headers", default=None)
    missing: (
        Annotated[
            str,
            Meta(
                description="What the dead letter lacks, because no client could read it; absent "
                "if it has all of its record.",
                examples=["key, value and headers"],
            ),
        ]
        | None
    ) = field(name="dlq.missing", default=None)
    attempts: (
        Annotated[
            _Number,
            Meta(
                description="How often `dlq send` had sent the record again; absent if never. The "
                "record has the same header.",
                examples=["1"],
            ),
        ]
        | None
    ) = field(name="dlq.attempts", default=None)


class Published(NamedTuple):
    """One file: its name, its type, complete examples."""

    name: str
    type: type[Any]
    examples: list[dict[str, Any]]


_UPSERTS: Final[list[dict[str, Any]]] = [
    {
        "type": "review.upserted",
        "entity_id": "B00X",
        "review_id": "r-81",
        "review_version": 3,
        "text": "Sharp display. The battery lasts for weeks.",
        "rating": 4.0,
        "language": "en",
        "occurred_at": "2026-11-20T12:00:00Z",
        "verified": True,
        "country": "NL",
        "author_id": "u-4711",
    },
    {
        "type": "review.upserted",
        "entity_id": "B00X",
        "review_id": "r-82",
        "sentences": [
            {"text": "Sharp display.", "embedding": "zczMPc3MTL4=", "labels": ["display"]},
            "The battery lasts for weeks.",
        ],
        "embedding_model": "a model of two dimensions",
    },
]
_SUMMARY: Final[dict[str, Any]] = {
    "type": "summary.changed",
    "entity_id": "B00X",
    "epoch": 1,
    "sequence": 991,
    "previous_sequence": 874,
    "sentences": [
        {
            "rank": 0,
            "sentence_id": "r-81#0",
            "review_id": "r-81",
            "text": "Sharp display.",
            "rating": 4.0,
            "occurred_at": "2026-11-20T12:00:00Z",
            "language": "en",
            "verified": True,
            "country": "NL",
            "author_id": "u-4711",
            "distance": 0.4127,
            "support": 3,
        }
    ],
    "added": ["r-81#0"],
    "removed": ["r-12#4"],
    "review_count": 240,
    "sentence_count": 1311,
    "k": 1,
    "cause": {
        "type": "review.upserted",
        "topic": "marketplace.reviews.v1",
        "partition": 3,
        "offset": 991,
        "review_id": "r-81",
    },
    "occurred_at": "2026-11-20T12:00:00Z",
    "embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
    "algorithm": ALGORITHM,
    "ratings": {"count": 231, "mean": 4.5, "histogram": {"4": 116, "5": 115}},
}
_FACETS: Final[dict[str, Any]] = {
    "type": "facets.changed",
    "entity_id": "B00X",
    "epoch": 1,
    "sequence": 991,
    "previous_sequence": 874,
    "changed": ["display"],
    "review_count": 240,
    "sentence_count": 1311,
    "facets": [
        {
            "name": "display",
            "k": 3,
            "sentence_count": 109,
            "review_count": 97,
            "ratings": {"count": 95, "mean": 4.2, "histogram": {"3": 19, "4.5": 76}},
            "sentences": _SUMMARY["sentences"],
            "mentions": {
                "review_count": 131,
                "ratings": {"count": 129, "mean": 4.0, "histogram": {"4": 129}},
            },
        }
    ],
    "cause": _SUMMARY["cause"],
    "occurred_at": "2026-11-20T12:00:00Z",
    "embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
    "algorithm": ALGORITHM,
    "ratings": _SUMMARY["ratings"],
}
_HEADERS: Final[dict[str, Any]] = {
    "dlq.reason": "bad_field",
    "dlq.detail": "review_id: missing",
    "dlq.source.topic": "marketplace.reviews.v1",
    "dlq.source.partition": "3",
    "dlq.source.offset": "992",
    "dlq.worker.version": "1.0.0",
}
_SUMMARY_VIEW: Final[dict[str, Any]] = {
    "entity_id": "B00X",
    "incarnation": 12,
    "review_count": 240,
    "sentence_count": 1311,
    "ratings": _SUMMARY["ratings"],
    "sequence": 991,
    "sentences": _SUMMARY["sentences"],
    "partition": 3,
    "next_offset": 992,
    "reservoir": 140,
    "refills": None,
}
_SHORT_VIEW: Final[dict[str, Any]] = {
    "entity_id": "B00X",
    "incarnation": 12,
    "review_count": 240,
    "sentence_count": 1311,
    "threshold": 0.8,
    "sentences": [
        {
            "rank": 0,
            "sentence_id": "r-81#0",
            "review_id": "r-81",
            "text": "Sharp display.",
            "rating": 4.0,
            "distance": 0.4127,
            "stands_for": 31,
            "stands_for_reviews": 29,
        }
    ],
    "partition": 3,
    "next_offset": 992,
}
_FACETS_VIEW: Final[dict[str, Any]] = {
    "entity_id": "B00X",
    "incarnation": 12,
    "review_count": 240,
    "sentence_count": 1311,
    "ratings": _SUMMARY["ratings"],
    "sequence": 991,
    "facets": _FACETS["facets"],
    "partition": 3,
    "next_offset": 992,
}
_OVERVIEW: Final[dict[str, Any]] = {
    "entity_id": "B00X",
    "incarnation": 12,
    "review_count": 240,
    "sentence_count": 1311,
    "ratings": _SUMMARY["ratings"],
    "threshold": 0.8,
    "sentences": [
        {
            "rank": 0,
            "facet": "display",
            "facet_sentence_count": 109,
            "sentence_id": "r-81#0",
            "review_id": "r-81",
            "text": "Sharp display.",
            "rating": 4.0,
            "distance": 0.4127,
        }
    ],
    "facets": _FACETS["facets"],
    "languages": {"en": 214, "nl": 26},
    "partition": 3,
    "next_offset": 992,
}
_DELETION: Final[dict[str, Any]] = {"entity_id": "B00X", "occurred_at": "2026-11-20T12:00:00Z"}

MESSAGES: Final = (
    Published("review.upserted", UpsertBody, _UPSERTS),
    Published(
        "review.deleted",
        ReviewDeleted,
        [
            {"type": "review.deleted", "review_id": "r-81", "review_version": 4, "reason": "spam"}
            | _DELETION
        ],
    ),
    Published(
        "sentences.deleted",
        SentencesDeleted,
        [{"type": "sentences.deleted", "sentence_ids": ["r-81#2"]} | _DELETION],
    ),
    Published("entity.deleted", EntityDeleted, [{"type": "entity.deleted"} | _DELETION]),
    Published("summary.changed", SummaryChanged, [_SUMMARY]),
    Published("facets.changed", FacetsChanged, [_FACETS]),
)
"""The values of messages."""
HEADERS: Final = Published("dead-letter.headers", DeadLetterHeaders, [_HEADERS])
PUBLISHED: Final = (
    *MESSAGES,
    Published("summary-view", SummaryView, [_SUMMARY_VIEW]),
    Published("short-view", ShortView, [_SHORT_VIEW]),
    Published("facets-view", FacetsView, [_FACETS_VIEW]),
    Published("overview", Overview, [_OVERVIEW]),
    HEADERS,
)


def schema(published: Published) -> dict[str, Any]:
    """The JSON Schema of one type, with the types it refers to."""
    body, components = parts(published, "#/$defs/{name}")
    return (
        {"$schema": DIALECT, "$id": f"urn:coversumm:{published.name}"}
        | body
        | ({"$defs": components} if components else {})
        | {"examples": published.examples}
    )


def registry_schema(published: Published) -> dict[str, Any]:
    """The same for a schema registry: in draft-07 and without an id, as registries compare schemas,
    and closed, or a new optional field would count as incompatible.
    """
    body, components = parts(published, "#/definitions/{name}")
    definitions = {name: _closed(component) for name, component in components.items()}
    return (
        {"$schema": DRAFT_07}
        | _closed(body)
        | ({"definitions": definitions} if definitions else {})
    )


def parts(published: Published, ref_template: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of one type, and by name those of the types it refers to."""
    _, components = msgspec.json.schema_components([published.type], ref_template=ref_template)
    components = {name: _readable(component) for name, component in components.items()}
    body: dict[str, Any] = components.pop(published.type.__name__)
    if "type" in body["properties"]:
        body["properties"]["type"] = {"const": published.name}
    if published.type is UpsertBody:
        body["anyOf"] = [{"required": ["text"]}, {"required": ["sentences"]}]
    if published.type in (
        SummaryChanged,
        FacetsChanged,
        SummaryView,
        ShortView,
        FacetsView,
        Overview,
    ):  # fields with a default are also always written, unless the default is to leave them out
        body["required"] = [name for name in body["properties"] if name not in _optional(published)]
    body["title"] = published.name
    return body, components


def _closed(of_object: dict[str, Any]) -> dict[str, Any]:
    return of_object | {"additionalProperties": False}


def _optional(published: Published) -> set[str]:
    fields = msgspec.structs.fields if issubclass(published.type, Struct) else dataclasses.fields
    return {field.name for field in fields(published.type) if field.default is UNSET}


def _readable(node: Any) -> Any:
    """`node` with one-line descriptions, and `T or null` as one schema instead of a
    choice of two.
    """
    if isinstance(node, list):
        return [_readable(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: _readable(value) for name, value in node.items()}
    if isinstance(description := node.get("description"), str):
        node["description"] = " ".join(description.split())
    match node.get("anyOf"):
        case [{"type": str(kind), **rest}, {"type": "null"}]:
            del node["anyOf"]
            return {**rest, "type": [kind, "null"], **node}
    return node


def schemas() -> dict[str, str]:
    """Name and text of every file in `schemas/`."""
    files = {f"{published.name}.schema.json": schema(published) for published in PUBLISHED}
    files |= {
        f"draft-07/{message.name}.schema.json": registry_schema(message) for message in MESSAGES
    }
    return {
        name: json.dumps(made, indent=2, ensure_ascii=False) + "\n" for name, made in files.items()
    }
