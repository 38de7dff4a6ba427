"""Pairs of consecutive summaries that differ, to be judged by reading them, as in the paper's human
evaluation.

`python -m tests.bench.quality.draw_pairs --data FOLDER --key FILE` prints the pairs, numbered and
mixed, and writes their data sets and methods to the key, which the judge reads afterwards. Key and
verdicts are copied by hand into tests/bench/results/pairs_judged.json.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.bench.judge import added, rows_named
from tests.bench.paper.methods import METHODS, TUNED, Method, Setting
from tests.bench.quality import data
from tests.bench.quality.entity import Entity
from tests.bench.streams import embedded
from tests.bench.tables import read_record

PAIRS = 17  # of a method on a data set
SENTENCES = 3_000  # of an entity that are read
REVIEWS = 1_000  # of a product at least, as in the paper
# p, c1 and c2 by the grid search of `tests.bench.paper`, on what alpha was found on
FOUND = {"p": 0.9, "c1": 0.15, "c2": 1e-4}
WAYS = {"exact": METHODS["exact"], **TUNED}


def changes(entity: Entity, method: Method) -> list[tuple[list[int], list[int]]]:
    """The rows of full summaries before and after each sentence that changed the set."""
    given = read_record("quality.json")["parameters"]
    of = Setting(given["k"], entity.vectors.shape[1], given["b"], given["alpha"], **FOUND)
    said = [rows_named(ids) for ids in method.make(of).take(added(entity.vectors))]
    return [(old, new) for old, new in pairwise(said) if len(old) == of.k and set(old) != set(new)]


def drawn(entities: Sequence[Entity], method: Method, seed: int) -> Iterator[str]:
    """The texts of `PAIRS` changes, the entities in turn; those of an entity are as likely."""
    random = np.random.default_rng(seed)
    order = [entities[at] for at in random.permutation(len(entities))]
    found = [changes(entity, method) for entity in order]
    places = [random.permutation(len(of)) for of in found]
    for turn, at in (divmod(number, len(order)) for number in range(PAIRS)):
        old, new = found[at][places[at][turn]]
        marked = [("    ", row) for row in old] + [("  + ", row) for row in new if row not in old]
        yield "\n".join(mark + order[at].sentences[row] for mark, row in marked)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality.draw_pairs")
    parser.add_argument("--data", type=Path, default=Path("data"), help="as of make quality")
    parser.add_argument("--key", type=Path, required=True, help="data set and method by number")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sets = {
        "Amazon": data.products(given.data, REVIEWS, lambda texts: embedded(texts[:SENTENCES])),
        "SPACE": data.hotels(given.data),
    }
    pairs = [
        (name, way, text)
        for name, entities in sets.items()
        for number, (way, method) in enumerate(WAYS.items())
        for text in drawn(entities, method, given.seed + number)
    ]
    mixed = [pairs[at] for at in np.random.default_rng(given.seed).permutation(len(pairs))]
    given.key.write_text(json.dumps([(name, way) for name, way, _ in mixed]))
    for number, (_, _, text) in enumerate(mixed):
        print(f"\n{number}\n{text}")


if __name__ == "__main__":
    main()
