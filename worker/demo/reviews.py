"""The reviews that come with the package, as events in the order they were written."""

import gzip
import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from worker.events import read_line

ATTRIBUTION: Final = "Reviews: Inside Airbnb (insideairbnb.com), Albany, New York, CC BY 4.0"
FACETS: Final = "preset:stays"
_DATA: Final = files("worker.demo").joinpath("data")


def reviews_file() -> Traversable:
    """The bundled reviews as gzipped JSON lines."""
    return _DATA.joinpath("airbnb_albany.jsonl.gz")


def bundled_reviews() -> list[tuple[bytes, bytes]]:
    """Keys and values of the reviews as `review.upserted` events, by day, then by id. The name of a
    stay is its id: people see ids on screens and on the page.
    """
    names = json.loads(_DATA.joinpath("names.json").read_text("utf-8"))
    lines = gzip.decompress(reviews_file().read_bytes()).splitlines()
    reviews = sorted(map(json.loads, lines), key=lambda r: (r["created_at"], r["review_id"]))
    for review in reviews:
        review["entity_id"] = names.get(review["entity_id"], review["entity_id"])
    events = (read_line(json.dumps(review, ensure_ascii=False).encode()) for review in reviews)
    return [(key, value) for key, value in events if key is not None]


def take_down(entity_id: str, review_id: str) -> tuple[bytes, bytes]:
    """Key and value of the event that deletes a review."""
    event = {"type": "review.deleted", "entity_id": entity_id, "review_id": review_id}
    return entity_id.encode(), json.dumps(event | {"reason": "taken down"}).encode()
