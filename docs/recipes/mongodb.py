"""A collection of MongoDB as Debezium's connector writes it: documents are JSON in a text.

Deletions need `changeStreamPreAndPostImages` of the collection, and the connector's
`capture.mode=change_streams_update_full_with_pre_image`: only then `before` names the product.
"""

import json
from datetime import UTC, datetime, timedelta

START = datetime(1970, 1, 1, tzinfo=UTC)


def events(record):
    """The events of a change of a document."""
    value = record.value or {}
    change = value.get("payload", value)
    if not change:
        return None  # the tombstone after each deletion
    before, after = document(change, "before"), document(change, "after")
    found = []
    if change["op"] == "d" or (before and after and before["product"] != after["product"]):
        found.append(
            {
                "type": "review.deleted",
                "entity_id": before["product"],
                "review_id": plain(before["_id"]),
            }
        )
    if after:
        found.append(
            {
                "type": "review.upserted",
                "entity_id": after["product"],
                "review_id": plain(after["_id"]),
                "text": after["body"],
                "rating": plain(after.get("stars")),
                "occurred_at": plain(after.get("at")),
            }
        )
    return found


def document(change, name):
    """The document before or after the change; None if there is none."""
    return json.loads(change[name]) if change.get(name) else None


def plain(value):
    """A value of MongoDB's extended JSON."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind in ("$oid", "$numberDecimal", "$numberLong", "$numberInt", "$numberDouble"):
        return inner
    if kind == "$date" and isinstance(inner, dict):
        inner = int(inner["$numberLong"])
    if kind == "$date" and isinstance(inner, int):
        time = (START + timedelta(milliseconds=inner)).isoformat(timespec="milliseconds")
        return time.replace("+00:00", "Z").replace(".000Z", "Z")
    return inner
