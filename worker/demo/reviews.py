"""The demo's reviews: those that come with the package, in the order they were written, as events."""

import gzip
import json
from importlib.resources import files
from typing import Any, NamedTuple

from worker.events import read_line

ATTRIBUTION = "Reviews: Inside Airbnb (insideairbnb.com), Albany, New York, CC BY 4.0"
_FILE = "airbnb_albany.jsonl.gz"


class Produced(NamedTuple):
    """An event on its way to Kafka."""

    key: bytes
    value: bytes


def bundled_reviews() -> list[Produced]:
    """All reviews as `review.upserted` events, by day, then by id."""
    lines = gzip.decompress(files("worker.demo").joinpath("data", _FILE).read_bytes()).splitlines()
    reviews = sorted((json.loads(line) for line in lines), key=lambda r: (r["created_at"], r["review_id"]))
    return [_produced(review) for review in reviews]


def take_down(entity_id: str, review_id: str) -> Produced:
    """The event that a review was taken down."""
    event = {"type": "review.deleted", "entity_id": entity_id, "review_id": review_id, "reason": "taken down"}
    return Produced(entity_id.encode(), json.dumps(event).encode())


def _produced(review: dict[str, Any]) -> Produced:
    key, value = read_line(json.dumps(review, ensure_ascii=False).encode())
    assert key is not None
    return Produced(key, value)
