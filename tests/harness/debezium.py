"""A mapping of a table captured by Debezium, and the records that Debezium writes for its rows."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.drive import config
from tests.harness.small_load import DIMENSION
from worker.events import Record
from worker.mapping import TopicMapping, load_mapping
from worker.processing.in_memory import ProcessorInMemory

TOPIC = "shop.public.reviews"
MAPPING = f"""
[topic."{TOPIC}"]
key = "json"
unwrap = "payload"

[[topic."{TOPIC}".rule]]
name = "published"
when = {{ op = ["c", "u", "r"], "after.status" = "published" }}
emit = "review.upserted"
entity_id = "after.product_id"
review_id = "after.id"
review_version = "source.lsn"
text = {{ join = ["after.title", "after.body"], with = ". " }}
rating = "after.stars"
occurred_at = {{ path = "after.updated_at", epoch = "us" }}

[[topic."{TOPIC}".rule]]
name = "taken down"
when = {{ op = "u" }}
emit = "review.deleted"
entity_id = "after.product_id"
review_id = "after.id"
review_version = "source.lsn"

[[topic."{TOPIC}".rule]]
name = "draft"
when = {{ op = ["c", "r"] }}
emit = "ignore"

[[topic."{TOPIC}".rule]]
name = "gone"
when = {{ op = "d" }}
emit = "review.deleted"
entity_id = "before.product_id"
review_id = "before.id"
review_version = "source.lsn"
"""
"""For a table with the replica identity (product_id, id), or a full one."""


def deletions(topic: str) -> str:
    """The smallest mapping of a topic: each record deletes a review."""
    return f"""
[topic."{topic}"]
[[topic."{topic}".rule]]
emit = "review.deleted"
entity_id = "product"
review_id = "id"
"""


def mapping(folder: Path, text: str = MAPPING, topic: str = TOPIC) -> TopicMapping:
    """A topic's mapping from a file with this text."""
    return load_mapping(written(folder, text))[topic]


def written(folder: Path, text: str = MAPPING) -> Path:
    """A mapping file with this text."""
    file = folder / "mapping.toml"
    file.write_text(text)
    return file


def row(number: int, product: int, **columns: Any) -> dict[str, Any]:
    """A row of the table."""
    return {
        "id": number,
        "product_id": product,
        "title": "A title",
        "body": f"The words of {number}. Good value.",
        "stars": 4,
        "status": "published",
        "updated_at": 1_763_640_000_000_000 + number,
        **columns,
    }


def key(after: dict[str, Any], *, schemas: bool = True) -> bytes:
    """The record's key: the columns of message.key.columns."""
    return _enveloped({name: after[name] for name in ("product_id", "id")}, schemas)


def change(op: str, after: dict[str, Any], lsn: int, *, schemas: bool = True) -> bytes:
    """The record's value. As with REPLICA IDENTITY USING INDEX, `before` of a deletion has the
    columns of the key; Debezium fills the others.
    """
    body = {
        "before": filled(after, ("product_id", "id")) if op == "d" else None,
        "after": None if op == "d" else after,
        "source": {"version": "3.2.0", "connector": "postgresql", "table": "reviews", "lsn": lsn},
        "op": op,
        "ts_ms": 1_763_640_000_000,
    }
    return _enveloped(body, schemas)


def filled(after: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """A deleted row of which PostgreSQL knows these columns: Debezium fills the others, here all
    NOT NULL, with 0 and empty texts.
    """
    return {name: value if name in known else type(value)() for name, value in after.items()}


def _enveloped(payload: dict[str, Any], schemas: bool) -> bytes:
    schema = {"type": "struct", "name": f"{TOPIC}.Envelope", "optional": False}
    return json.dumps({"schema": schema, "payload": payload} if schemas else payload).encode()


WITH_VECTORS = MAPPING.replace(
    'text = { join = ["after.title", "after.body"], with = ". " }', 'sentences = "after.sentences"'
)
"""The same for rows whose sentences have vectors, for workers without an engine."""


class Step(NamedTuple):
    """A change of a row: the record's key and value, and the event of the contract, if any."""

    product: str
    key: bytes
    value: bytes | None
    event: bytes | None


def steps(count: int, products: int, dimension: int, seed: int) -> Iterator[Step]:
    """A table's life: a snapshot, creates, edits, some unpublished, deletions with tombstones."""
    chance = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    for lsn in range(1, count + 1):
        number = chance.choice(list(rows)) if rows and chance.random() < 0.5 else lsn
        if number in rows and chance.random() < 0.25:
            gone = rows.pop(number)
            yield _step(gone, "d", lsn)
            yield Step(str(gone["product_id"]), key(gone), None, None)
            continue
        product = rows[number]["product_id"] if number in rows else chance.randrange(products)
        vector = struct.pack(f"<{dimension}f", *(chance.gauss(0, 1) for _ in range(dimension)))
        words = {"text": f"Row {number} at {lsn}.", "embedding": base64.b64encode(vector).decode()}
        status = "published" if chance.random() < 0.8 else "hidden"
        op = "u" if number in rows else "r" if lsn < count // 4 else "c"
        rows[number] = row(number, product, sentences=[words], status=status)
        yield _step(rows[number], op, lsn)


def _step(after: dict[str, Any], op: str, lsn: int) -> Step:
    names = {"entity_id": str(after["product_id"]), "review_id": str(after["id"])}
    event: dict[str, Any] | None = {**names, "review_version": lsn, "type": "review.deleted"}
    if op != "d" and after["status"] == "published":
        time = f"2025-11-20T12:00:00.{after['id']:06}Z"
        own = {"type": "review.upserted", "rating": after["stars"], "occurred_at": time}
        event = {**names, "review_version": lsn, "sentences": after["sentences"], **own}
    elif op in "cr":
        event = None
    raw = None if event is None else json.dumps(event).encode()
    return Step(names["entity_id"], key(after), change(op, after, lsn), raw)


OF_ONE_BUILD = ("epoch", "sequence", "previous_sequence", "cause")


def bodies(values: Iterable[bytes | None]) -> dict[str, list[Any]]:
    """By entity its changes in order, without what differs between builds; None: a tombstone."""
    found: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        if value is not None:
            body = json.loads(value)
            found[body["entity_id"]].append(
                {name: one for name, one in body.items() if name not in OF_ONE_BUILD}
            )
    return dict(found)


def last_sets(changes: dict[str, list[Any]]) -> dict[str, set[tuple[str, str]]]:
    """By entity the set last published: distances depend on the order of reviews, it does not."""
    return {
        name: {(one["sentence_id"], one["text"]) for one in found[-1]["sentences"]}
        for name, found in changes.items()
    }


def expected(history: list[Step]) -> dict[str, list[Any]]:
    """What a worker publishes about these events of the contract."""
    made = config(k=5, limits={"dimension": DIMENSION, "model": None, "embeds": False})
    processor = ProcessorInMemory(made, None)
    records = [
        Record("reviews", 0, i, 0, one.product.encode(), one.event)
        for i, one in enumerate(history)
        if one.event is not None
    ]
    batches = processor.process(records)
    messages = [message for batch in batches for message in batch.messages]
    assert {message.topic for message in messages} == {"summaries"}
    return bodies(message.value for message in messages)
