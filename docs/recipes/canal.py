"""Tables of MySQL as canal writes them in flat messages: several rows, and in `old` what changed.

Every value is a text. `old` has the columns of each row that an update changed, with their values
before it: a product there means that the review moved. `es` has whole seconds, in which a row may
change twice, so the version is the record's offset: let canal choose the partition by the primary
key (canal.mq.partitionHash), so that all records of a row are in one.
"""

from datetime import datetime, timedelta, timezone

ZONE = timezone(timedelta(hours=8))  # of the database's datetime columns


def events(record):
    """The events of a change of rows."""
    change = record.value
    if change is None or change.get("isDdl") or change["table"] != "reviews":
        return None
    if change["type"] not in ("INSERT", "UPDATE", "DELETE"):
        raise ValueError(f"type {change['type']!r} is not a change of rows")
    rows = change["data"]
    found = []
    for row, old in zip(rows, change.get("old") or [{}] * len(rows), strict=True):
        before = {**row, **(old or {})}
        has_moved = before["product_id"] != row["product_id"]
        if change["type"] == "DELETE" or has_moved or row["state"] != "visible":
            found.append(deleted(before, record.offset))
        if change["type"] != "DELETE" and row["state"] == "visible":
            found.append(review(row, record.offset))
    return found


def review(row, version):
    """The review in a row."""
    return {
        "type": "review.upserted",
        "entity_id": row["product_id"],
        "review_id": row["id"],
        "review_version": version,
        "text": row["body"],
        "rating": row["stars"],
        "occurred_at": datetime.fromisoformat(row["updated_at"]).replace(tzinfo=ZONE),
    }


def deleted(row, version):
    """The deletion of the review in a row."""
    return {
        "type": "review.deleted",
        "entity_id": row["product_id"],
        "review_id": row["id"],
        "review_version": version,
    }
