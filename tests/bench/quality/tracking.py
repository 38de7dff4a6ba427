"""What summaries follow: the stars of all reviews so far, the polarity of all sentences, the
aspects that were spoken of.

The paper's figures 4 and 5. Each course is of pairs: what all reviews so far say, and what the
summary says. Its error is the mean of the absolute differences, from the 20th review (of aspects:
sentence) on; before it the summary is all there is. `random` draws 20 of all sentences so far anew
each time: what is to be had without any centroid.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench.paper.methods import METHODS, Setting
from tests.bench.quality.aspects import aspect_of
from tests.bench.quality.contenders import OURS, RANDOM, draw, step_by_step
from tests.bench.quality.data import MAX_CHARS
from tests.bench.quality.entity import Entity
from worker.text.splitting import split_sentences

FROM = 20
METHODS_OF = {
    OURS: "exact",
    "coversumm-random": "coversumm-random",
    "coversumm-decay": "coversumm-decay",
}
ORDERS = ("temporal", "falling", "rising")
ASPECTS_IN_ORDER = ("food", "service", "location", "rooms", "cleanliness", "building")
POINTS = 120  # of a course that are kept


class Course(NamedTuple):
    """After so many reviews (of aspects: sentences) what all say and what the summary says."""

    at: list[int]
    all: NDArray[np.float64]
    summary: NDArray[np.float64]

    @property
    def error(self) -> float:
        """The mean absolute difference from `FROM` on; of all where there are not as many."""
        counted = np.array(self.at) >= FROM
        differences = np.abs(self.all - self.summary)
        return float(differences[counted].mean() if counted.any() else differences.mean())

    def thinned(self) -> list[list[float]]:
        """Points for a figure: [at, all, summary]."""
        rows = np.unique(
            np.linspace(0, len(self.at) - 1, min(POINTS, len(self.at))).round().astype(int)
        )
        return [
            [self.at[row], round(float(self.all[row]), 3), round(float(self.summary[row]), 3)]
            for row in rows
        ]


def courses(
    entity: Entity, marks: Sequence[int], setting: Setting, say: Callable[[list[int]], float]
) -> dict[str, NDArray[np.float64]]:
    """What each method's summary says after so many sentences."""
    after = {
        name: step_by_step(METHODS[method], setting, entity, marks).after
        for name, method in METHODS_OF.items()
    }
    after[RANDOM] = {mark: draw(0, mark, setting.k) for mark in marks}
    return {name: np.array([say(of[mark]) for mark in marks]) for name, of in after.items()}


def so_far(values: Sequence[float]) -> NDArray[np.float64]:
    """The running mean."""
    return np.cumsum(values) / np.arange(1, len(values) + 1)


def ratings(entity: Entity, order: str, setting: Setting) -> dict[str, Course]:
    """Stars: the mean of all reviews so far, and of the reviews that the summary's sentences are
    from.
    """
    stars = np.array([np.nan if stars is None else stars for stars in entity.ratings])
    rated = np.intersect1d(np.flatnonzero(~np.isnan(stars)), entity.review_of)
    if order != "temporal":
        rated = rated[
            np.argsort(stars[rated] if order == "rising" else -stars[rated], kind="stable")
        ]
    ordered = entity.in_order(rated.tolist())
    stars = stars[rated]
    at = list(range(1, len(rated) + 1))
    marks = [ordered.after(count) for count in at]
    of_sentence = stars[ordered.review_of]
    said = courses(ordered, marks, setting, lambda rows: float(of_sentence[rows].mean()))
    return {name: Course(at, so_far(stars), summary) for name, summary in said.items()}


def polarity(entity: Entity, setting: Setting) -> dict[str, Course]:
    """VADER's compound score from -1 to 1: the mean of all sentences so far, and of the
    summary's.
    """
    scores = np.array([polarity_of(sentence) for sentence in entity.sentences])
    at = np.unique(entity.review_of) + 1
    marks = [entity.after(int(count)) for count in at]
    all_ = so_far(scores.tolist())[np.array(marks) - 1]
    said = courses(entity, marks, setting, lambda rows: float(scores[rows].mean()))
    return {name: Course(at.tolist(), all_, summary) for name, summary in said.items()}


def polarity_of(text: str) -> float:
    """VADER's compound score of a sentence."""
    global _vader
    if _vader is None:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

        _vader = SentimentIntensityAnalyzer().polarity_scores
    return float(_vader(text)["compound"])


def polarity_of_texts(texts: Sequence[str]) -> float:
    """The mean over the sentences of human summaries."""
    scores = [
        polarity_of(sentence) for text in texts for sentence in split_sentences(text, MAX_CHARS)
    ]
    return round(float(np.mean(scores)), 3)


_vader: Callable[[str], Mapping[str, float]] | None = None


def aspects(
    entity: Entity, seeds: Mapping[str, Mapping[str, float]], setting: Setting
) -> dict[str, Course]:
    """How many aspects all sentences so far have, and how many the summary's have, when they come
    aspect by aspect.
    """
    found = [aspect_of(sentence, seeds) for sentence in entity.sentences]
    rows = [row for aspect in ASPECTS_IN_ORDER for row, of in enumerate(found) if of == aspect]
    names = [found[row] for row in rows]
    ordered = entity.only(rows)
    at = list(range(1, len(rows) + 1))
    all_ = np.array([len(set(names[:count])) for count in at], np.float64)
    said = courses(ordered, at, setting, lambda taken: float(len({names[row] for row in taken})))
    return {name: Course(at, all_, summary) for name, summary in said.items()}
