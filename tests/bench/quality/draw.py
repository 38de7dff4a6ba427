"""Sentences of each facet of a preset, drawn at random, to be judged by reading them.

`python -m tests.bench.quality.draw stays`, `hotels --data FOLDER`, `products --data FOLDER`, or
any preset with `--reviews FILE`: JSON lines packed by gzip, with `entity_id` and `text`. The shares
that belong there are written by hand into tests/bench/results/facets_judged.json.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.bench.quality import data
from tests.bench.quality.entity import Entity
from tests.bench.quality.facets import groups_of
from tests.bench.quality.facets_shown import preset_of
from tests.bench.streams import embedded
from worker.facets import PRESETS
from worker.facets.membership import FacetCriteria

SENTENCES = 10


def draw(
    entities: Sequence[Entity], facets: FacetCriteria, seed: int = 1, count: int = SENTENCES
) -> Mapping[str, tuple[int, list[str]]]:
    """By facet its number of sentences and `count` of them; all entities' sentences are as
    likely.
    """
    definitions = facets.definitions.facets
    members: list[list[str]] = [[] for _ in definitions]
    for entity in entities:
        for number, rows in enumerate(groups_of(entity, facets)):
            members[number] += [entity.sentences[row] for row in rows]
    random = np.random.default_rng(seed)
    return {
        facet.name: (len(of), [of[at] for at in random.permutation(len(of))[:count]])
        for facet, of in zip(definitions, members, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality.draw")
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--data", type=Path, default=Path("data"), help="as of make quality")
    parser.add_argument("--reviews", type=Path, help="other reviews")
    parser.add_argument("--entities", default="", help="of these only ids that begin with this")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.reviews:
        entities = data.stays(path=given.reviews, begins=given.entities)
    elif given.preset == "hotels":
        entities = data.hotels(given.data)
    elif given.preset == "products":
        entities = data.products(given.data, 1, most=1)
    else:
        entities = data.stays(most=1)
    for name, (count, sentences) in draw(
        entities, preset_of(given.preset, embedded), given.seed
    ).items():
        print(f"\n{name}: {count:,} sentences", *sentences, sep="\n  ")


if __name__ == "__main__":
    main()
