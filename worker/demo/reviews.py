"""The reviews that come with the package, as events in the order they were written."""

import gzip
import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from worker.events import read_line
from worker.view.board import EntityNames

ATTRIBUTION: Final = "Reviews: Inside Airbnb (insideairbnb.com), Albany, New York, CC BY 4.0"
FACETS: Final = "preset:stays"
ID_PREFIX: Final = "abnb:"
NO_NAMES: Final[Mapping[str, str]] = {}
_DATA: Final = files("worker.demo").joinpath("data")


class Produced(NamedTuple):
    """The key and value of an event."""

    key: bytes
    value: bytes


def reviews_file() -> Traversable:
    """The bundled reviews as gzipped JSON lines."""
    return _DATA.joinpath("airbnb_albany.jsonl.gz")


def stay_names() -> EntityNames:
    """The names of the stays."""
    return EntityNames(
        json.loads(_DATA.joinpath("names.json").read_text("utf-8")), prefix=ID_PREFIX
    )


def bundled_reviews(names: Mapping[str, str] = NO_NAMES) -> list[Produced]:
    """The reviews as `review.upserted` events, by day, then by id; `names`: entity ids by id."""
    lines = gzip.decompress(reviews_file().read_bytes()).splitlines()
    reviews = sorted(map(json.loads, lines), key=lambda r: (r["created_at"], r["review_id"]))
    for one in reviews:
        one["entity_id"] = names.get(one["entity_id"], one["entity_id"])
    events = (read_line(json.dumps(one, ensure_ascii=False).encode()) for one in reviews)
    return [Produced(key, value) for key, value in events if key is not None]


def take_down(entity_id: str, review_id: str) -> Produced:
    """The event that deletes a review."""
    event = {
        "type": "review.deleted",
        "entity_id": entity_id,
        "review_id": review_id,
        "reason": "taken down",
    }
    return Produced(entity_id.encode(), json.dumps(event).encode())
