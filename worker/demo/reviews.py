"""The demo's reviews: those that come with the package, in the order they were written,
as events.
"""

import gzip
import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

from worker.events import read_line
from worker.view import EntityNames

ATTRIBUTION: Final = "Reviews: Inside Airbnb (insideairbnb.com), Albany, New York, CC BY 4.0"
ID_PREFIX: Final = "abnb:"
_DATA: Final = files("worker.demo").joinpath("data")


class Produced(NamedTuple):
    """An event on its way to Kafka."""

    key: bytes
    value: bytes


def reviews_file() -> Traversable:
    """All bundled reviews, gzipped JSON lines."""
    return _DATA.joinpath("airbnb_albany.jsonl.gz")


def stay_names() -> EntityNames:
    """What guests call the stays."""
    return EntityNames(
        json.loads(_DATA.joinpath("names.json").read_text("utf-8")), prefix=ID_PREFIX
    )


def bundled_reviews() -> list[Produced]:
    """All reviews as `review.upserted` events, by day, then by id."""
    lines = gzip.decompress(reviews_file().read_bytes()).splitlines()
    reviews = sorted(
        (json.loads(line) for line in lines), key=lambda r: (r["created_at"], r["review_id"])
    )
    return [_produced(review) for review in reviews]


def take_down(entity_id: str, review_id: str) -> Produced:
    """The event that a review was taken down."""
    event = {
        "type": "review.deleted",
        "entity_id": entity_id,
        "review_id": review_id,
        "reason": "taken down",
    }
    return Produced(entity_id.encode(), json.dumps(event).encode())


def _produced(review: dict[str, Any]) -> Produced:
    key, value = read_line(json.dumps(review, ensure_ascii=False).encode())
    assert key is not None
    return Produced(key, value)
