"""How many calls of a language model keep every product's text up to date, by when it is called.

`python -m tests.bench.calls [--data FILE:PRESET ...]`: on the bundled reviews and on others. The
events go through the worker's own processor, one review each, by date.
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.bench.machine import began, command_line, write
from tests.bench.quality.data import TextReview, lines, of_texts
from tests.bench.quality.facets_shown import preset_of, published
from tests.bench.streams import BUNDLED, embedded
from worker.events.outputs import FACETS_CHANGED, SUMMARY_CHANGED

RECORD = Path(__file__).parent / "results" / "calls.json"
LEAST = (1, 2, 4)
K = 20


def nightly(reviews: Sequence[TextReview]) -> tuple[int, int]:
    """Calls of a nightly job: for all products that have a review yet, and for those with a new
    one since the night before.
    """
    days: dict[str, set[date]] = {}
    for one in reviews:
        days.setdefault(one.entity_id, set()).add(date.fromisoformat((one.created_at or "")[:10]))
    last = max(max(of) for of in days.values())
    return sum((last - min(of)).days + 1 for of in days.values()), sum(map(len, days.values()))


def measured(path: Path, preset: str) -> dict[str, Any]:
    """A row of the record: calls by when a model is called."""
    reviews = [one for one in lines(path, TextReview) if one.created_at]
    reviews.sort(key=lambda one: one.created_at or "")
    facets = preset_of(preset, embedded)
    entities = of_texts(reviews, 1, embedded)
    every_night, changed_nights = nightly(reviews)
    row: dict[str, Any] = {
        "file": path.name,
        "preset": preset,
        "reviews": len(reviews),
        "entities": len(entities),
        "every_night": every_night,
        "changed_nights": changed_nights,
    }
    for kind in (SUMMARY_CHANGED, FACETS_CHANGED):
        row[kind] = dict.fromkeys(map(str, LEAST), 0)
    for entity in entities:
        for least in LEAST:
            found = published(entity, facets, least, K)
            for kind in (SUMMARY_CHANGED, FACETS_CHANGED):
                row[kind][str(least)] += found[kind]
    return row


def main() -> None:
    """Measure and write the record."""
    parser = command_line(__doc__, RECORD)
    parser.add_argument("--data", nargs="*", default=[], help="FILE:PRESET, JSON lines in gzip")
    given = parser.parse_args()
    record = began("tests.bench.calls") | {"k": K, "rows": []}
    for place in (f"{BUNDLED}:stays", *given.data):
        path, _, preset = place.rpartition(":")
        record["rows"].append(measured(Path(path), preset))
        write(given.out, record)
        print(record["rows"][-1], flush=True)
    print(f"written to {given.out}; `make docs` puts it into docs/llm.md")


if __name__ == "__main__":
    main()
