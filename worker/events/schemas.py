"""The published JSON Schemas (2020-12), generated from the types in `model.py`.

`python -m worker.events.schemas` checks `schemas/` against the code, `--write` writes it. The schemas say what is
the same for every worker; its limits (dimension, model, sizes) and the Kafka key are not theirs to check.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from worker.events.inputs import EntityDeleted, ReviewDeleted, SentencesDeleted, UpsertBody
from worker.events.reasons import Reason
from worker.events.summary import SummaryChanged

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FOLDER: Final = Path(__file__).parents[2] / "schemas"

_Number = Annotated[str, Meta(pattern="^[0-9]+$(?!\\n)")]


class DeadLetterHeaders(Struct, frozen=True):
    """The headers of a dead letter, whose key and value are the original bytes. All of them are UTF-8 text."""

    reason: Annotated[Reason, Meta(description="Why the record was not applied.")] = field(name="dlq.reason")
    detail: Annotated[str, Meta(description="One line for people; names the field at fault.")] = field(
        name="dlq.detail"
    )
    topic: Annotated[str, Meta(description="Where the record was read.")] = field(name="dlq.source.topic")
    partition: _Number = field(name="dlq.source.partition")
    offset: _Number = field(name="dlq.source.offset")
    version: Annotated[str, Meta(description="Version of the worker that refused it.")] = field(
        name="dlq.worker.version"
    )
    truncated: (
        Annotated[
            _Number, Meta(description="Bytes cut off a value too large for the topic; 64 KiB are left.")
        ]
        | None
    ) = field(name="dlq.truncated_bytes", default=None)
    truncated_key: Annotated[_Number, Meta(description="The same for a key.")] | None = field(
        name="dlq.truncated_key_bytes", default=None
    )


class _Published(NamedTuple):
    """One file: its name, the type behind it, whole examples."""

    name: str
    type: type[Struct]
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
    },
    {
        "type": "review.upserted",
        "entity_id": "B00X",
        "review_id": "r-82",
        "sentences": [
            {"text": "Sharp display.", "embedding": "zczMPc3MTL4="},
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
    "algorithm": "coversumm/1",
}
_HEADERS: Final[dict[str, Any]] = {
    "dlq.reason": "bad_field",
    "dlq.detail": "review_id: missing",
    "dlq.source.topic": "marketplace.reviews.v1",
    "dlq.source.partition": "3",
    "dlq.source.offset": "992",
    "dlq.worker.version": "0.1.0",
}
_DELETION: Final[dict[str, Any]] = {"entity_id": "B00X", "occurred_at": "2026-11-20T12:00:00Z"}

PUBLISHED: Final = (
    _Published("review.upserted", UpsertBody, _UPSERTS),
    _Published(
        "review.deleted",
        ReviewDeleted,
        [{"type": "review.deleted", "review_id": "r-81", "review_version": 4, "reason": "spam"} | _DELETION],
    ),
    _Published(
        "sentences.deleted",
        SentencesDeleted,
        [{"type": "sentences.deleted", "sentence_ids": ["r-81#2"]} | _DELETION],
    ),
    _Published("entity.deleted", EntityDeleted, [{"type": "entity.deleted"} | _DELETION]),
    _Published("summary.changed", SummaryChanged, [_SUMMARY]),
    _Published("dead-letter.headers", DeadLetterHeaders, [_HEADERS]),
)


def schema(published: _Published) -> dict[str, Any]:
    """The JSON Schema of one type, with everything it refers to."""
    _, components = msgspec.json.schema_components([published.type], ref_template="#/$defs/{name}")
    components = {name: _readable(component) for name, component in components.items()}
    body: dict[str, Any] = components.pop(published.type.__name__)
    if "type" in body["properties"]:
        body["properties"]["type"] = {"const": published.name}
    if published.type is UpsertBody:
        body["anyOf"] = [{"required": ["text"]}, {"required": ["sentences"]}]
    if published.type is SummaryChanged:
        body["required"] = list(
            body["properties"]
        )  # a default spares the code an argument; it is written all the same
    head = {"$schema": DIALECT, "$id": f"urn:coversumm:{published.name}"}
    body["title"] = published.name
    return head | body | ({"$defs": components} if components else {}) | {"examples": published.examples}


def _readable(node: Any) -> Any:
    """`node` with one-line descriptions, and `T or null` as one schema instead of a choice of two."""
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


def files() -> Iterator[tuple[str, str]]:
    """Name and text of every file in `schemas/`."""
    for published in PUBLISHED:
        text = json.dumps(schema(published), indent=2, ensure_ascii=False)
        yield f"{published.name}.schema.json", text + "\n"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the schemas, or exit 1 naming those that differ from the code."""
    if list(arguments) not in ([], ["--write"]):
        print("usage: python -m worker.events.schemas [--write]", file=sys.stderr)
        return 2
    expected = dict(files())
    if arguments:
        for name, text in expected.items():
            (folder / name).write_text(text, encoding="utf-8")
        return 0
    actual = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.schema.json")}
    differing = sorted(
        name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name)
    )
    for name in differing:
        print(f"schemas/{name} is not what the code says: python -m worker.events.schemas --write")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
