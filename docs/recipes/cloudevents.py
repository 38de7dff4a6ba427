"""CloudEvents in binary mode (attributes in headers), structured mode and batches.

Attributes are in headers that begin with `ce_`, with `ce-` if Spring wrote them. Types that are
known and mean nothing here are named: any other type becomes a dead letter.
"""

UPSERTS = ("com.shop.review.created", "com.shop.review.updated")
IGNORED = ("com.shop.price.changed",)


def events(record):
    """The events of a CloudEvent, or of a batch."""
    attributes = {
        name[3:].lower(): text
        for name, text in record.headers.items()
        if name[:3].lower() in ("ce_", "ce-")
    }
    if "specversion" in attributes:
        return event(attributes, record.value)
    batch = record.value if isinstance(record.value, list) else [record.value]
    found = [event(body, body.get("data")) for body in batch]
    return [made for made in found if made is not None]


def event(attributes, data):
    """The event of the attributes and the data of a CloudEvent."""
    kind = attributes["type"]
    if kind in IGNORED:
        return None
    if kind not in (*UPSERTS, "com.shop.review.deleted"):
        raise ValueError(f"type {kind!r} is unknown")
    found = {
        "type": "review.upserted" if kind in UPSERTS else "review.deleted",
        "entity_id": attributes["subject"],
        "review_id": data["reviewId"],
        "occurred_at": attributes.get("time"),
    }
    return {**found, "text": data["body"]} if kind in UPSERTS else found
