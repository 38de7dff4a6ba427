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


def written(folder: Path, text: str = MAPPING, name: str = "mapping.toml") -> Path:
    """A mapping file with this text."""
    file = folder / name
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


def change(
    op: str,
    after: dict[str, Any],
    lsn: int,
    *,
    schemas: bool = True,
    before: dict[str, Any] | None = None,
) -> bytes:
    """The record's value. As with REPLICA IDENTITY USING INDEX, `before` of a deletion has the
    columns of the key; Debezium fills the others. With FULL an update has the row `before`.
    """
    body = {
        "before": filled(after, ("product_id", "id")) if op == "d" else before,
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


FUNCTION = """
from datetime import UTC, datetime, timedelta

def events(record):
    change = (record.value or {}).get("payload", record.value)
    if change is None:
        return None
    before, after, version = change["before"], change["after"], change["source"]["lsn"]
    if change["op"] == "d":
        return about(before, version)
    found = []
    if change["op"] == "u" and before and before["product_id"] != after["product_id"]:
        found.append(about(before, version))
    if after["status"] == "published":
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=after["updated_at"])
        own = {"sentences": after["sentences"], "rating": after["stars"], "occurred_at": time}
        found.append({**about(after, version), "type": "review.upserted", **own})
    elif change["op"] == "u":
        found.append(about(after, version))
    return found

def about(row, version):
    ids = {"entity_id": row["product_id"], "review_id": row["id"]}
    return {"type": "review.deleted", **ids, "review_version": version}
"""
"""The mappings WITH_VECTORS and MOVING in Python."""


MOVED = f"""
[[topic."{TOPIC}".rule]]
name = "moved"
when = {{ op = "u", "before.product_id" = {{ differs = "after.product_id" }} }}
[[topic."{TOPIC}".rule.event]]
emit = "review.deleted"
entity_id = "before.product_id"
review_id = "before.id"
review_version = "source.lsn"
[[topic."{TOPIC}".rule.event]]
emit = "review.upserted"
entity_id = "after.product_id"
review_id = "after.id"
review_version = "source.lsn"
occurred_at = {{ path = "after.updated_at", epoch = "us" }}
"""
"""The rule of an update that moves a review to another product; its content is to be added."""
MOVING = WITH_VECTORS.replace(
    f'[[topic."{TOPIC}".rule]]',
    f"""{MOVED}sentences = "after.sentences"
rating = "after.stars"
[[topic."{TOPIC}".rule]]""",
    1,
)
"""The same for a table whose updates may move a review to another product."""


class Step(NamedTuple):
    """A change of a row: the record's key and value, and its events of the contract."""

    product: str
    key: bytes
    value: bytes | None
    events: tuple[bytes, ...]


def steps(
    count: int, products: int, dimension: int, seed: int, *, moves: bool = False
) -> Iterator[Step]:
    """A table's life: a snapshot, creates, edits, some unpublished, deletions with tombstones; with
    `moves` also published reviews that move to another product.
    """
    chance = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    for lsn in range(1, count + 1):
        number = chance.choice(list(rows)) if rows and chance.random() < 0.5 else lsn
        if number in rows and chance.random() < 0.25:
            gone = rows.pop(number)
            yield _step(gone, "d", lsn)
            yield Step(str(gone["product_id"]), key(gone), None, ())
            continue
        product = rows[number]["product_id"] if number in rows else chance.randrange(products)
        vector = struct.pack(f"<{dimension}f", *(chance.gauss(0, 1) for _ in range(dimension)))
        words = {"text": f"Row {number} at {lsn}.", "embedding": base64.b64encode(vector).decode()}
        status = "published" if chance.random() < 0.8 else "hidden"
        op = "u" if number in rows else "r" if lsn < count // 4 else "c"
        before = rows.get(number)
        if moves and before is not None and chance.random() < 0.3:
            product, status = (product + 1) % products, "published"
        rows[number] = row(number, product, sentences=[words], status=status)
        yield _step(rows[number], op, lsn, before)


def _step(after: dict[str, Any], op: str, lsn: int, before: dict[str, Any] | None = None) -> Step:
    names = {"entity_id": str(after["product_id"]), "review_id": str(after["id"])}
    event: dict[str, Any] | None = {**names, "review_version": lsn, "type": "review.deleted"}
    if op != "d" and after["status"] == "published":
        time = f"2025-11-20T12:00:00.{after['id']:06}Z"
        own = {"type": "review.upserted", "rating": after["stars"], "occurred_at": time}
        event = {**names, "review_version": lsn, "sentences": after["sentences"], **own}
    elif op in "cr":
        event = None
    events = [] if event is None else [event]
    if before is not None and before["product_id"] != after["product_id"]:
        gone = {"review_id": names["review_id"], "review_version": lsn, "type": "review.deleted"}
        events.insert(0, {"entity_id": str(before["product_id"]), **gone})
        value = change(op, after, lsn, before=before)
    else:
        value = change(op, after, lsn)
    raw = tuple(json.dumps(event).encode() for event in events)
    return Step(names["entity_id"], key(after), value, raw)


OF_ONE_BUILD = ("epoch", "sequence", "previous_sequence", "cause")


def bodies(values: Iterable[bytes | None]) -> dict[str, list[Any]]:
    """By entity its changes in order, without what differs between builds; None: a tombstone."""
    found: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        if value is not None:
            body = json.loads(value)
            found[body["entity_id"]].append(
                {name: value for name, value in body.items() if name not in OF_ONE_BUILD}
            )
    return dict(found)


def last_sets(changes: dict[str, list[Any]]) -> dict[str, set[tuple[str, str]]]:
    """By entity the set last published: distances depend on the order of reviews, it does not."""
    return {
        name: {(sentence["sentence_id"], sentence["text"]) for sentence in found[-1]["sentences"]}
        for name, found in changes.items()
    }


def expected(history: list[Step]) -> dict[str, list[Any]]:
    """What a worker publishes about these events of the contract."""
    made = config(k=5, limits={"dimension": DIMENSION, "model": None, "embeds": False})
    processor = ProcessorInMemory(made, None)
    records = [
        Record("reviews", 0, i, 0, json.loads(event)["entity_id"].encode(), event)
        for i, event in enumerate(event for step in history for event in step.events)
    ]
    batches = processor.process(records)
    messages = [message for batch in batches for message in batch.messages]
    assert {message.topic for message in messages} == {"summaries"}
    return bodies(message.value for message in messages)
