"""Fewer changes: what it saves to publish only when at least m of the sentences differ, and what
being out of date costs.

A set is published when at least m of its sentences are not those of the set published last, or when
it became empty or stopped being so. With m = 1 that is every change. Changes are counted review by
review, as the worker publishes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.bench.paper.methods import METHODS, Setting
from tests.bench.quality.contenders import step_by_step
from tests.bench.quality.entity import Entity
from tests.bench.quality.hotels import Hotel, interval
from tests.bench.quality.rouge import mean, rouge
from tests.bench.quality.walk import text_of, walk

LEAST = range(1, 21)
LOOK_EVERY = 5  # reviews between two looks at what readers have


def shown(sets: Sequence[Sequence[int]], least: int) -> list[int]:
    """After each event which of the sets is the one that was published last, by its place; -1 for
    none yet.
    """
    last: frozenset[int] = frozenset()
    place = -1
    places = []
    for now_at, rows in enumerate(sets):
        now = frozenset(rows)
        differ = max(len(now - last), len(last - now))
        if differ and (differ >= least or not now or not last):
            last, place = now, now_at
        places.append(place)
    return places


def changes(places: Sequence[int]) -> int:
    """How many sets were published."""
    return len(set(places) - {-1})


def out_of_date(sets: Sequence[Sequence[int]], places: Sequence[int]) -> float:
    """The share of the current set that the published one does not have, the mean over
    all events.
    """
    shares = []
    for rows, place in zip(sets, places, strict=True):
        last = frozenset(sets[place]) if place >= 0 else frozenset()
        shares.append(len(frozenset(rows) - last) / len(rows) if rows else 0.0)
    return float(np.mean(shares))


class Sent(NamedTuple):
    """What m comes to on one entity; `r1`, the mean of the looks, where there are references."""

    least: int
    reviews: int
    changes: int
    out_of_date: float
    r1: float | None = None


def look_at(entity: Entity, setting: Setting, hotel: Hotel | None = None) -> list[Sent]:
    """Every m on one entity. With a hotel's references: R1 (the mean of them) of what readers have
    meanwhile.
    """
    marks = [entity.after(count) for count in range(1, len(entity.ratings) + 1)]
    sets = step_by_step(METHODS["exact"], setting, entity, sorted(set(marks) - {0})).after
    history = [sets.get(mark, []) for mark in marks]
    found = []
    for least in LEAST:
        places = shown(history, least)
        r1 = None if hotel is None else _r1(history, places, hotel)
        found.append(Sent(least, len(history), changes(places), out_of_date(history, places), r1))
    return found


def _r1(history: Sequence[Sequence[int]], places: Sequence[int], hotel: Hotel) -> float:
    entity = hotel.entity
    scores = []
    for at in range(LOOK_EVERY - 1, len(history), LOOK_EVERY):
        ranked = list(history[places[at]]) if places[at] >= 0 else []
        text = text_of(walk(ranked, entity.sentences, hotel.tfidf), entity.sentences)
        scores.append(mean([rouge(text, reference) for reference in hotel.references]).r1)
    return float(np.mean(scores))


def row(name: str, of: Sequence[Sequence[Sent]]) -> list[dict[str, object]]:
    """A row an m over entities: means, and R1 against that of m = 1 with a 95 % interval by
    resampling entities.
    """
    rows = []
    for at, least in enumerate(LEAST):
        each = [sent[at] for sent in of]
        line: dict[str, object] = {
            "entities": name,
            "m": least,
            "reviews": round(float(np.mean([run.reviews for run in each])), 1),
            "changes": round(float(np.mean([run.changes for run in each])), 1),
            "out_of_date": round(float(np.mean([run.out_of_date for run in each])), 4),
        }
        lost = [
            sent[0].r1 - run.r1
            for sent, run in zip(of, each, strict=True)
            if sent[0].r1 is not None and run.r1 is not None
        ]
        if lost:
            line |= {"r1_lost": round(float(np.mean(lost)), 2), "r1_lost_interval": interval(lost)}
        rows.append(line)
    return rows
