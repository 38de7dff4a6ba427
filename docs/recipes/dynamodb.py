"""A table of DynamoDB by its stream, with new and old images (NEW_AND_OLD_IMAGES).

Each value names its type: {"S": "B00X"}. A sequence number is larger than a version can be. The
record's offset is right while all records of a review are in one partition.
"""


def events(record):
    """The events of a change of an item."""
    if record.value is None:
        return None
    change = record.value["dynamodb"]
    before, after = (item(change.get(name)) for name in ("OldImage", "NewImage"))
    found = []
    if before and (not after or after["product"] != before["product"]):
        found.append(
            {
                "type": "review.deleted",
                "entity_id": before["product"],
                "review_id": before["review"],
                "review_version": record.offset,
            }
        )
    if after:
        found.append(
            {
                "type": "review.upserted",
                "entity_id": after["product"],
                "review_id": after["review"],
                "review_version": record.offset,
                "text": after.get("body"),
                "rating": after.get("stars"),
                "verified": after.get("bought"),
            }
        )
    return found


def item(image):
    """The item of an image by attribute; None if there is none."""
    return {name: plain(value) for name, value in image.items()} if image else None


def plain(value):
    """A value without its type. Numbers are texts, which events read as numbers."""
    ((kind, inner),) = value.items()
    if kind == "NULL":
        return None
    if kind == "M":
        return item(inner)
    return [plain(member) for member in inner] if kind == "L" else inner
