"""Sentences to judge the words of a preset by: does a sentence mention the facet?

`python -m tests.bench.quality.draw_words stays --seed 2`, `hotels` or `products --data FOLDER`.
For each visible facet it draws 50 sentences with its words, 30 without them that are near one of
its phrases, and 20 others, and prints them mixed, with their numbers. The numbers of those that
mention it are written by hand into a JSON file, by facet. While the words are the same,
`--judged FILE` draws the same sentences again, and prints what belongs into
tests/bench/results/words_judged.json. Sentences of reviews in one language only.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.bench.quality import data
from tests.bench.quality.entity import Entity
from tests.bench.quality.facets_shown import preset_of
from tests.bench.streams import embedded
from worker.facets import PRESETS
from worker.facets.membership import FacetCriteria
from worker.facets.words import Words
from worker.text.language import LanguageDetector

NEAR = 0.3  # cosine to a phrase: below the threshold of facets, 0.4
MIXED = (50, 30, 20)  # with words, near a phrase, others
STRATA = ("with", "near", "others")


class Drawn(NamedTuple):
    """Sentences of a facet, mixed; `strata[i]` of the i-th; `sizes` of all in each stratum."""

    sentences: list[str]
    strata: list[int]
    sizes: list[int]


def draw(
    entities: Sequence[Entity],
    facets: FacetCriteria,
    words: Words,
    language: str,
    seed: int,
    counts: Sequence[int] = MIXED,
) -> Mapping[str, Drawn]:
    """By visible facet; all sentences in a stratum are as likely."""
    sentences, vectors = of_language(entities, language)
    mentioned = np.array([words.bits([sentence], language) for sentence in sentences], np.uint64)
    random = np.random.default_rng(seed)
    drawn = {}
    for number in facets.definitions.visible:
        facet = facets.definitions.facets[number]
        stratum = np.where(
            mentioned >> np.uint64(number) & np.uint64(1),
            0,
            np.where(is_near(vectors, facets, number), 1, 2),
        )
        rows = [random.permutation(np.flatnonzero(stratum == which)) for which in range(3)]
        taken = random.permutation(
            np.concatenate([of[:count] for of, count in zip(rows, counts, strict=True)])
        ).tolist()
        drawn[facet.name] = Drawn(
            [sentences[row] for row in taken],
            [int(stratum[row]) for row in taken],
            [len(of) for of in rows],
        )
    return drawn


def of_language(
    entities: Sequence[Entity], language: str
) -> tuple[list[str], np.ndarray[tuple[int, int], np.dtype[np.int16]]]:
    """The sentences of reviews in this language, each text once, and their vectors."""
    detector = LanguageDetector([language])
    found: dict[str, np.ndarray[tuple[int], np.dtype[np.int16]]] = {}
    for entity in entities:
        reviews: dict[int, list[int]] = {}
        for row, review in enumerate(entity.review_of.tolist()):
            reviews.setdefault(review, []).append(row)
        for rows in reviews.values():
            texts = [entity.sentences[row] for row in rows]
            if detector.language_of(" ".join(texts)) == language:
                found.update(zip(texts, entity.vectors[rows], strict=True))
    return list(found), np.array(list(found.values()))


def is_near(
    vectors: np.ndarray[tuple[int, int], np.dtype[np.int16]], facets: FacetCriteria, number: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether a sentence is near one of the facet's phrases; another facet's may be nearer."""
    phrases = [len(facet.phrases or ()) for facet in facets.definitions.facets]
    first = sum(phrases[:number])
    of_facet = facets.vectors[first : first + phrases[number]].astype(np.float64)
    rows = vectors.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    of_facet /= np.linalg.norm(of_facet, axis=1, keepdims=True)
    return np.asarray((rows @ of_facet.T).max(axis=1) >= NEAR)


def counted(drawn: Drawn, belong: Sequence[int]) -> Mapping[str, list[int]]:
    """By stratum how many sentences it has, how many were drawn, and how many of those belong."""
    return {
        name: [
            drawn.sizes[which],
            drawn.strata.count(which),
            sum(drawn.strata[number] == which for number in set(belong)),
        ]
        for which, name in enumerate(STRATA)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality.draw_words")
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--data", type=Path, default=Path("data"), help="as of make quality")
    parser.add_argument("--language", default="en")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judged", type=Path, help="numbers of those that belong, by facet")
    given = parser.parse_args()
    if given.preset == "hotels":
        entities = data.hotels(given.data)
    elif given.preset == "products":
        entities = data.products(given.data, 1, most=1)
    else:
        entities = data.stays()
    facets = preset_of(given.preset, embedded)
    words = Words([facet.words for facet in facets.definitions.facets])
    drawn = draw(entities, facets, words, given.language, given.seed)
    if given.judged:
        judged = json.loads(given.judged.read_text())
        for name, belong in judged.items():
            print(json.dumps({name: counted(drawn[name], belong)}))
        return
    for name, of in drawn.items():
        print(f"\n{name}", *(f"{i} {text}" for i, text in enumerate(of.sentences)), sep="\n")


if __name__ == "__main__":
    main()
