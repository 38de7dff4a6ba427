"""Who makes summaries: those that rank all sentences anew, and the ways to CentroidRank, a sentence
a step.

Another contender is an entry in `contenders`: a name, what kind it is, and a function of an entity
and the numbers of sentences after which its ranking is wanted.
"""

import time
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench.judge import added, id_of, rows_named
from tests.bench.paper.methods import METHODS, Method, Setting
from tests.bench.quality.entity import Entity
from tests.bench.quality.ranking.centroid_opt import as_published, centroid_opt
from tests.bench.quality.ranking.lex_rank import lex_rank
from tests.bench.quality.ranking.lsa import by_length_of_column, lsa
from tests.bench.quality.ranking.sum_basic import sum_basic
from tests.bench.quality.ranking.text_rank import text_rank
from tests.bench.quality.words import Words, content_words, words_of
from worker.coversumm.short_view import choose
from worker.processing.entity_view import THRESHOLD

OURS = "ours"
SHORT = "ours, short view"
RANDOM = "random"
SEEDS = range(10)  # of the random choice: its figures are the mean of all
BY_CHANCE, BY_WORDS, BY_VECTORS, STEP_BY_STEP = "chance", "words", "vectors", "CentroidRank"


class Rankings(NamedTuple):
    """What a contender made of an entity. `seconds` of processor time went into `summaries` of
    them.
    """

    after: dict[int, list[int]]  # after so many sentences the rows of the best, the best first
    seconds: float
    summaries: int


class Contender(NamedTuple):
    """Several of one name are one contender with several seeds."""

    name: str
    kind: str
    make: Callable[[Entity, Sequence[int]], Rankings]


def contenders(setting: Setting, names: Container[str] | None = None) -> list[Contender]:
    """All of them, or those of some names; without those of the paper whose library is not
    installed.
    """
    of_words = {
        "SumBasic": sum_basic,
        "LexRank": lex_rank,
        "TextRank": text_rank,
        "LSA": lsa,
        "LSA as sumy has it": by_length_of_column,
    }
    of_vectors = {"Centroid-OPT": centroid_opt, "Centroid-OPT as published": as_published}
    found = [
        *(Contender(RANDOM, BY_CHANCE, partial(_drawn, seed, setting.k)) for seed in SEEDS),
        *(
            Contender(name, BY_WORDS, partial(_by_words, rank, setting.k))
            for name, rank in of_words.items()
        ),
        *(
            Contender(name, BY_VECTORS, partial(_by_vectors, rank, setting.k))
            for name, rank in of_vectors.items()
        ),
        Contender(SHORT, BY_VECTORS, partial(_short_views, setting.k)),
        *(
            Contender(
                OURS if name == "exact" else name,
                STEP_BY_STEP,
                partial(step_by_step, method, setting),
            )
            for name, method in METHODS.items()
            if method.available
        ),
    ]
    return [contender for contender in found if names is None or contender.name in names]


def left_out() -> list[str]:
    """The packages that would bring more methods of the paper."""
    return [method.install for method in METHODS.values() if not method.available]


def step_by_step(
    method: Method, setting: Setting, entity: Entity, marks: Sequence[int]
) -> Rankings:
    """A ranking after each sentence; those after `marks` sentences are kept."""
    contender = method.make(setting)
    steps = added(entity.vectors)
    after: dict[int, list[int]] = {}
    done, seconds = 0, 0.0
    for mark in marks:
        start = time.process_time()
        said = contender.take(steps[done:mark])
        seconds += time.process_time() - start
        done = mark
        after[mark] = rows_named(said[-1])
    return Rankings(after, seconds, done)


def _by_words(
    rank: Callable[[Words, int], list[int]], k: int, entity: Entity, marks: Sequence[int]
) -> Rankings:
    """The words of sentences are found beforehand, as vectors are given to others."""
    words = words_of([content_words(sentence) for sentence in entity.sentences])
    return _anew(lambda mark: rank(words.first(mark), k), marks)


def _by_vectors(
    rank: Callable[[NDArray[np.float64], int], list[int]],
    k: int,
    entity: Entity,
    marks: Sequence[int],
) -> Rankings:
    points = entity.unit.astype(np.float64)
    return _anew(lambda mark: rank(points[:mark], k), marks)


def short_view(vectors: NDArray[np.int16], k: int) -> list[int]:
    """The rows of the short view of k sentences, near-duplicates passed over; the walk to 75 words
    has its own idea of them.
    """
    chosen = choose(lambda: [_Rows(vectors)], vectors.shape[1], THRESHOLD, k)
    return [int(id_) for id_ in chosen.ids]


class _Rows:
    """All sentences as one block of what is stored."""

    def __init__(self, vectors: NDArray[np.int16]) -> None:
        self.vectors = vectors

    def id(self, row: int) -> bytes:
        return id_of(row)


def _short_views(k: int, entity: Entity, marks: Sequence[int]) -> Rankings:
    return _anew(lambda mark: short_view(entity.vectors[:mark], k), marks)


def _drawn(seed: int, k: int, entity: Entity, marks: Sequence[int]) -> Rankings:
    return _anew(lambda mark: draw(seed, mark, k), marks)


def _anew(rank: Callable[[int], list[int]], marks: Sequence[int]) -> Rankings:
    start = time.process_time()
    after = {mark: rank(mark) for mark in marks}
    return Rankings(after, time.process_time() - start, len(marks))


def draw(seed: int, count: int, k: int) -> list[int]:
    """k of the first `count` sentences, drawn by a seed."""
    return [int(row) for row in np.random.default_rng((seed, count)).permutation(count)[:k]]
