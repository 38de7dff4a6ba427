"""What copies and paraphrases of one text do to a summary and to facets, by COVERSUMM_WEIGH, and
what `texts` does to honest reviews: `python -m tests.bench.quality.copies`.

Of the bundled stays. A sender adds sentences; *kept* is how many texts of the set from before are
still in it. The sets are the worker's own. Recorded in results/quality_copies.json.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.machine import began, write
from tests.bench.quality import data
from tests.bench.quality.entity import Entity
from tests.bench.quality.facets import groups_of
from tests.bench.quality.facets_shown import preset_of
from tests.bench.streams import embedded
from worker.coversumm import EntityCore, FlatIndex, Points, Step, no_points

RESULTS = Path(__file__).parents[1] / "results" / "quality_copies.json"
WAYS: Mapping[str, Mapping[str, bool]] = {
    "reviews": {},
    "reviews, distinct": {"distinct": True},
    "texts": {"by_text": True},
}
K, FACET_K = 20, 3
COPIES = (5, 50, 500)
IN_FACET = 5
ADVERTS = (
    "Book it directly at our own site and save twenty percent.",
    "Do not stay here, you will regret it.",
    "The house next door is better and cheaper.",
    "The host cancelled our stay at the last minute.",
    "It was a great stay and a great place.",
)
"""Texts that a sender repeats, from far from what guests say to near it."""
PARAPHRASES = [
    f"{praise} {place}{end}"
    for praise, place, end in product(
        ("It was a great", "This is a great", "What a great", "Such a great", "A really great"),
        ("stay and a great place", "place and a great stay"),
        (".", "!", ", really.", ", for sure."),
    )
]
"""40 forms of the last of these."""

Vectors = NDArray[np.int16]


def shown(vectors: Vectors, k: int, way: str) -> list[int]:
    """The rows of the set, nearest first."""
    dimension = vectors.shape[1]
    core = EntityCore(k, dimension, FlatIndex(dimension), **WAYS[way])
    ids = [b"%09d" % row for row in range(len(vectors))]
    core.apply([Step(no_points(dimension), Points(ids, vectors))])
    return [int(id_) for id_ in core.ranking().ids]


def kept(honest: Vectors, added: Vectors, k: int, way: str) -> int:
    """Sentences of the honest set that stay in it when these are added."""
    before = set(shown(honest, k, way))
    return len(before & set(shown(np.concatenate([honest, added]), k, way)))


def in_summary(entity: Entity) -> list[dict[str, Any]]:
    """Kept of the summary's 20, with so many copies: the mean and the least over the texts."""
    adverts = embedded(list(ADVERTS))
    rows = []
    for way, copies in product(WAYS, COPIES):
        found = [kept(entity.vectors, np.tile(advert, (copies, 1)), K, way) for advert in adverts]
        rows.append({"weigh": way, "copies": copies, "mean": mean(found), "least": min(found)})
    return rows


def in_facets(entity: Entity) -> list[dict[str, Any]]:
    """By facet of the preset: kept of its 3 with five copies of a phrase of its own, the mean and
    the least over the phrases.
    """
    facets, rows = preset_of("stays", embedded), []
    definitions = facets.definitions.facets
    for number, members in enumerate(groups_of(entity, facets)):
        facet, honest = definitions[number], entity.vectors[members]
        if facet.hidden:
            continue
        row: dict[str, Any] = {"facet": facet.name, "sentences": len(members)}
        phrases = embedded(list(facet.phrases or ()))
        for way in WAYS:
            found = [
                kept(honest, np.tile(phrase, (IN_FACET, 1)), FACET_K, way) for phrase in phrases
            ]
            row[way] = {"mean": round(mean(found), 2), "least": min(found)}
        rows.append(row)
    return rows


def honest(entities: Sequence[Entity]) -> dict[str, Any]:
    """Without any sender: sentences that are copies, and how many texts of `texts`' set the others
    show too, the mean and the least.
    """
    shares, sets = [], []
    for entity in entities:
        shares.append(1 - len(np.unique(entity.vectors, axis=0)) / len(entity.vectors))
        sets.append(
            {w: {entity.vectors[r].tobytes() for r in shown(entity.vectors, K, w)} for w in WAYS}
        )
    record: dict[str, Any] = {
        "stays": len(entities),
        "copies": {"mean": round(mean(shares), 4), "most": round(max(shares), 4)},
    }
    for way in WAYS:
        same = [len(of[way] & of["texts"]) for of in sets]
        record[way] = {"mean": round(mean(same), 2), "least": min(same)}
    return record


def main() -> None:
    """Measure and record."""
    entities = data.stays(at_least=100)
    largest = entities[0]
    forms = embedded(PARAPHRASES)
    record = {
        **began("tests.bench.quality.copies"),
        "entity": largest.id,
        "sentences": len(largest.sentences),
        "k": K,
        "summary": in_summary(largest),
        "paraphrases": {way: kept(largest.vectors, forms, K, way) for way in WAYS},
        "forms": len(np.unique(forms, axis=0)),
        "facets": in_facets(largest),
        "honest_largest": honest([largest]),
        "honest": honest(entities),
    }
    write(RESULTS, record)
    for name, found in record.items():
        print(name, found)


if __name__ == "__main__":
    main()
