"""Facets on SPACE's hotels: an overview of all facets beside other ways to one, and each facet
beside the references of its aspect.

The *overview* goes through the facets by their number of sentences, takes the sentence nearest to
the centroid of each, then the next of each, and the walk makes 75 words of that. Membership and
ranking are the worker's own. The phrases and the threshold of `PLAIN` were set before any of these
figures and stay as they are; `PHRASINGS` shows what others would have given.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from tests.bench.judge import id_of, rows_named
from tests.bench.quality.aspects import aspect_of
from tests.bench.quality.contenders import OURS
from tests.bench.quality.data import Embed
from tests.bench.quality.entity import Entity
from tests.bench.quality.hotels import Final, Hotel, interval, near, repeats
from tests.bench.quality.rouge import PROTOCOLS, Rouge, average, rounded, scored
from tests.bench.quality.walk import text_of, walk
from worker.coversumm import EntityCore, FlatIndex, Points, Step, no_points
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import FacetCriteria

Phrasing = Mapping[str, Sequence[str]]
"""The phrases of each aspect."""

THRESHOLD = 0.4
PLAIN: Phrasing = {
    "location": ["The location was great."],
    "rooms": ["The room was comfortable."],
    "service": ["The staff was friendly."],
    "food": ["The food was good."],
    "cleanliness": ["It was very clean."],
    "building": ["The building is beautiful."],
}
BAD = {
    "location": "The location was bad.",
    "rooms": "The room was uncomfortable.",
    "service": "The staff was rude.",
    "food": "The food was bad.",
    "cleanliness": "It was dirty.",
    "building": "The building is ugly.",
}
PHRASINGS: Mapping[str, Phrasing] = {
    "one sentence each": PLAIN,
    "a good and a bad one": {aspect: [*of, BAD[aspect]] for aspect, of in PLAIN.items()},
    "what it is about": {
        "location": ["About the location and surroundings."],
        "rooms": ["About the rooms and beds."],
        "service": ["About the staff and the service."],
        "food": ["About the food and the breakfast."],
        "cleanliness": ["About the cleanliness."],
        "building": ["About the building and its facilities."],
    },
    "no complete sentence": {
        "location": ["the location"],
        "rooms": ["the room"],
        "service": ["the staff"],
        "food": ["the breakfast"],
        "cleanliness": ["it was clean"],
        "building": ["the building"],
    },
    "one word": {aspect: [aspect] for aspect in PLAIN},
}
THRESHOLDS = (0.3, THRESHOLD, 0.5)
CLUSTERS = len(PLAIN)

FACETS = "facets"
PRESET = "facets of `preset:hotels`, by words"
BY_PHRASE = "facets, nearest to the phrase"
BY_SEEDS = "facets by seed words"
K_MEANS = "k-means"

Groups = list[list[int]]
"""The rows of each group of sentences."""


def facets_of(phrasing: Phrasing, threshold: float, embed: Embed) -> FacetCriteria:
    """Facets of these phrases as the worker has them."""
    facets = [
        Facet(aspect, phrases=tuple(phrases), threshold=threshold)
        for aspect, phrases in phrasing.items()
    ]
    phrases = [phrase for facet in facets for phrase in facet.phrases or ()]
    return FacetCriteria(Definitions(facets), embed(phrases))


def groups_of(entity: Entity, facets: FacetCriteria) -> Groups:
    """The members of each facet of phrases, hidden ones too; of one that quotes words the sentences
    that it quotes.
    """
    found = facets.nearest_facets(entity.vectors)
    if facets.quoting_bits:
        words = [facets.mentions((text,), "", "en") for text in entity.sentences]
        each = zip(words, entity.sentences, strict=True)
        marks = [facets.marks(0, those, text, "", "en") for those, text in each]
        found &= np.array(marks, np.uint64) | np.uint64(facets.without_marks)
    numbers = range(len(facets.definitions.facets))
    return [np.flatnonzero(found & np.uint64(1 << number)).tolist() for number in numbers]


def central(entity: Entity, rows: Sequence[int], k: int) -> list[int]:
    """Of these rows the k nearest to their centroid, the nearest first."""
    if not rows:
        return []
    dimension = entity.vectors.shape[1]
    core = EntityCore(k, dimension, FlatIndex(dimension))
    points = Points([id_of(row) for row in rows], entity.vectors[rows])
    (ranking,) = core.apply([Step(no_points(dimension), points)])
    return rows_named(ranking)


def near_phrases(entity: Entity, facets: FacetCriteria, groups: Groups, k: int) -> Groups:
    """Of each group the k rows with the highest cosine to the facet's phrase; one phrase each."""
    products = entity.vectors.astype(np.float64) @ facets.vectors.T.astype(np.float64)
    return [
        sorted(rows, key=lambda row, n=number: (-products[row, n], row))[:k]
        for number, rows in enumerate(groups)
    ]


def clusters(entity: Entity) -> Groups:
    """As many groups as there are facets, by k-means."""
    made = KMeans(CLUSTERS, n_init=10, random_state=1).fit(entity.unit)
    return [np.flatnonzero(made.labels_ == cluster).tolist() for cluster in range(CLUSTERS)]


def in_turn(groups: Groups, ranked: Groups) -> list[int]:
    """The first of each, then the second of each, the largest group first."""
    order = sorted(range(len(groups)), key=lambda group: -len(groups[group]))
    rounds = zip_longest(*(ranked[group] for group in order))
    return [row for row in chain.from_iterable(rounds) if row is not None]


class Seen(NamedTuple):
    """A hotel. `overviews` by method; `phrasings` by phrasing and threshold R1 and the share of
    sentences with a facet; `aspects` by aspect.
    """

    overviews: dict[str, Final]
    phrasings: dict[tuple[str, float], tuple[float, float]]
    aspects: dict[str, dict[str, Rouge]]


def look_at(
    hotel: Hotel,
    references: Mapping[str, Sequence[str]],
    seeds: Mapping[str, Mapping[str, float]],
    words: Mapping[str, int],
    sets: Mapping[tuple[str, float], FacetCriteria],
    preset: FacetCriteria,
    k: int,
) -> Seen:
    """One hotel. `references` and `words` by aspect; `sets` by phrasing and threshold."""
    entity = hotel.entity
    facets = sets["one sentence each", THRESHOLD]
    groups = groups_of(entity, facets)
    ranked = [central(entity, rows, k) for rows in groups]
    of_preset = groups_of(entity, preset)
    of_preset = [of_preset[number] for number in preset.definitions.visible]
    by_word = [aspect_of(sentence, seeds) for sentence in entity.sentences]
    seeded = [[row for row, of in enumerate(by_word) if of == aspect] for aspect in PLAIN]
    parted = clusters(entity)
    rank = partial(central, entity, k=k)
    ways = {
        OURS: rank(list(range(len(entity.sentences)))),
        FACETS: in_turn(groups, ranked),
        BY_PHRASE: in_turn(groups, near_phrases(entity, facets, groups, k)),
        PRESET: in_turn(of_preset, [rank(rows) for rows in of_preset]),
        BY_SEEDS: in_turn(seeded, [rank(rows) for rows in seeded]),
        K_MEANS: in_turn(parted, [rank(rows) for rows in parted]),
    }
    return Seen(
        {name: _final(hotel, rows) for name, rows in ways.items()},
        {name: _phrased(hotel, of, rank) for name, of in sets.items()},
        {
            aspect: scored(
                text_of(walk(rows, entity.sentences, hotel.tfidf, words[aspect]), entity.sentences),
                references[aspect],
            )
            for aspect, rows in zip(PLAIN, ranked, strict=True)
        },
    )


def _final(hotel: Hotel, ranked: Sequence[int]) -> Final:
    entity = hotel.entity
    rows = walk(ranked, entity.sentences, hotel.tfidf)
    text = text_of(rows, entity.sentences)
    scores = scored(text, hotel.references)
    return Final(scores, len(text.split()), repeats(entity, rows), near(entity, rows))


def _phrased(
    hotel: Hotel, facets: FacetCriteria, rank: Callable[[list[int]], list[int]]
) -> tuple[float, float]:
    groups = groups_of(hotel.entity, facets)
    final = _final(hotel, in_turn(groups, [rank(rows) for rows in groups]))
    return final.scores["mean"].r1, sum(map(len, groups)) / len(hotel.entity.sentences)


# ---- over all hotels


def overviews(
    seen: Sequence[Seen], published: Mapping[str, Sequence[dict[str, Rouge]]], rival: str
) -> list[dict[str, object]]:
    """A row a method and published system, with how far R1 is from the plain summary and from the
    `rival` among `published`, as 95 % intervals by resampling hotels.
    """
    scores: dict[str, Sequence[dict[str, Rouge]]] = {
        name: [hotel.overviews[name].scores for hotel in seen] for name in seen[0].overviews
    }
    all_ = {**scores, **published}
    r1 = {name: np.array([score["mean"].r1 for score in of]) for name, of in all_.items()}
    rows: list[dict[str, object]] = []
    for name, of in all_.items():
        row: dict[str, object] = {"method": name, "published": name in published}
        row |= {
            protocol: rounded(average(score[protocol] for score in of)) for protocol in PROTOCOLS
        }
        row |= {
            "from_plain": interval(r1[name] - r1[OURS]),
            "from_rival": interval(r1[name] - r1[rival]),
        }
        if name not in published:
            finals = [hotel.overviews[name] for hotel in seen]
            for field, places in (("words", 1), ("repeats", 3), ("near", 3)):
                mean = np.mean([getattr(final, field) for final in finals])
                row[field] = round(float(mean), places)
        rows.append(row)
    return rows


def phrasings(seen: Sequence[Seen]) -> list[dict[str, object]]:
    """A row a phrasing and threshold: R1, and the share of sentences that have a facet."""
    rows: list[dict[str, object]] = []
    for phrasing, threshold in seen[0].phrasings:
        r1, share = np.mean([hotel.phrasings[phrasing, threshold] for hotel in seen], axis=0)
        rows.append(
            {
                "phrasing": phrasing,
                "example": PHRASINGS[phrasing]["location"],
                "threshold": threshold,
                "r1": round(float(r1), 2),
                "share": round(float(share), 4),
            }
        )
    return rows


def by_aspect(
    seen: Sequence[Seen], published: Mapping[str, Mapping[str, Sequence[dict[str, Rouge]]]]
) -> list[dict[str, object]]:
    """A row an aspect and method, as `aspects.over_all` has them; `published` by aspect and
    title.
    """
    return [
        {"aspect": aspect, "method": method}
        | {protocol: rounded(average(score[protocol] for score in of)) for protocol in PROTOCOLS}
        for aspect in sorted(PLAIN)
        for method, of in {
            FACETS: [hotel.aspects[aspect] for hotel in seen],
            **published.get(aspect, {}),
        }.items()
    ]
