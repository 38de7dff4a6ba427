"""Metaobjects of Shopify that are product reviews, as a webhook or the Admin API has them.

The fields are an object, or a list of keys and values. A rating is JSON in a text, with its scale.
A deleted metaobject has its id alone: let the producer write the product as the key of the record.
`updated_at` has whole seconds, too few for a version: the last record counts.
"""

import json


def events(record):
    """The event of a metaobject."""
    found = record.value
    if found is None or found.get("type", "product_review") != "product_review":
        return None
    review = found["id"].rpartition("/")[2]
    fields = found.get("fields")
    if fields is None:
        return {"type": "review.deleted", "entity_id": record.key, "review_id": review}
    if isinstance(fields, list):
        fields = {field["key"]: field["value"] for field in fields}
    return {
        "type": "review.upserted",
        "entity_id": fields["product"].rpartition("/")[2],
        "review_id": review,
        "text": fields["body"],
        "rating": rating(fields.get("rating")),
        "occurred_at": found["updated_at"],
    }


def rating(text):
    """A rating from 1 to 5; None if there is none."""
    if not text:
        return None
    given = json.loads(text)
    low, high = float(given["scale_min"]), float(given["scale_max"])
    return 1 + 4 * (float(given["value"]) - low) / (high - low)
