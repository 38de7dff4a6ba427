"""A table of PostgreSQL as Debezium's JSON converter writes it, with schemas or without.

Rows need REPLICA IDENTITY FULL, or USING INDEX on the product and the id: see docs/connect.md. A
review that moves to another product is deleted in the old one. A row that is not published is no
review, and is deleted if it was one.
"""

from datetime import UTC, datetime, timedelta

START = datetime(1970, 1, 1, tzinfo=UTC)


def events(record):
    """The events of a change of a row."""
    value = record.value or {}
    change = value.get("payload", value)
    if not change:
        return None  # the tombstone after each deletion
    before, after, version = change.get("before"), change.get("after"), change["source"]["lsn"]
    if change["op"] == "d":
        return deleted(before, version)
    if change["op"] not in ("c", "r", "u"):
        raise ValueError(f"op {change['op']!r} is not a change of a row")
    found = []
    if change["op"] == "u" and before and before["product_id"] != after["product_id"]:
        found.append(deleted(before, version))
    if after["status"] == "published":
        found.append(review(after, version))
    elif change["op"] == "u":
        found.append(deleted(after, version))
    return found


def review(row, version):
    """The review in a row."""
    return {
        "type": "review.upserted",
        "entity_id": row["product_id"],
        "review_id": row["id"],
        "review_version": version,
        "text": joined(row["title"], row["body"]),
        "occurred_at": START + timedelta(microseconds=row["updated_at"]),
    }


def deleted(row, version):
    """The deletion of the review in a row."""
    return {
        "type": "review.deleted",
        "entity_id": row["product_id"],
        "review_id": row["id"],
        "review_version": version,
    }


def joined(title, body):
    """Title and body with a full stop between them, if the title has no end of its own."""
    texts = [text for text in (title, body) if text and not text.isspace()]
    stop = " " if texts and texts[0].rstrip().endswith(tuple(".!?…。！？")) else ". "
    return stop.join(texts) or None
