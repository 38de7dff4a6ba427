"""ROUGE of every contender on SPACE's hotels: on the way, a summary every so often, and at the end.

*On the way*: after every 20 sentences (the paper's steps are sentences) and, apart from that, after
every 20 reviews; against the silver summary of the sentences so far, and against the human
summaries of all. *At the end*: against the human ones, with how much a summary repeats itself (mean
cosine of two of its sentences) and how near it is to all that was said (mean cosine of a sentence
to the summary's sentence that is most like it).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from tests.bench.paper.methods import Setting
from tests.bench.quality.contenders import OURS, STEP_BY_STEP, contenders
from tests.bench.quality.entity import Entity
from tests.bench.quality.rouge import PROTOCOLS, Rouge, average, rouge, rounded, scored
from tests.bench.quality.silver import Silver
from tests.bench.quality.walk import text_of, walk

EVERY = 20
ORACLE = "oracle"
UNCUT = "ours, all 20 sentences"
SENTENCES, REVIEWS = "sentences", "reviews"


class Hotel(NamedTuple):
    """What a hotel is judged by."""

    entity: Entity
    references: list[str]
    tfidf: csr_array  # a row a sentence


class Final(NamedTuple):
    """A summary at the end."""

    scores: dict[str, Rouge]  # by protocol
    words: int
    repeats: float
    near: float


class Way(NamedTuple):
    """A contender on one hotel. `silver` and `human` by the number of sentences so far, `human` by
    protocol before that.
    """

    name: str
    kind: str
    silver: dict[int, Rouge]
    human: dict[str, dict[int, Rouge]]
    final: Final
    seconds: float
    summaries: int


def marks_of(entity: Entity) -> dict[str, list[int]]:
    """After how many sentences summaries are scored: every 20 sentences, every 20 reviews."""
    reviews = len(entity.ratings)
    return {
        SENTENCES: list(range(EVERY, len(entity.sentences) + 1, EVERY)),
        REVIEWS: [entity.after(count) for count in range(EVERY, reviews + 1, EVERY)],
    }


def look_at(hotel: Hotel, setting: Setting) -> list[Way]:
    """Every contender on one hotel, and the oracle."""
    entity, references, tfidf = hotel
    end = len(entity.sentences)
    marks = sorted({end}.union(*marks_of(entity).values()))
    silver = Silver(entity.sentences, references)
    of_silver = {mark: silver.after(mark) for mark in marks}
    wanted = {mark: text_of(rows, entity.sentences) for mark, rows in of_silver.items()}
    ways = []
    for contender in contenders(setting):
        rankings = contender.make(entity, marks)
        rows = {
            mark: walk(ranked, entity.sentences, tfidf) for mark, ranked in rankings.after.items()
        }
        ways.append(
            _way(
                contender.name,
                contender.kind,
                rows,
                wanted,
                hotel,
                rankings.seconds,
                rankings.summaries,
            )
        )
        if contender.name == OURS:
            ways.append(_way(UNCUT, STEP_BY_STEP, {end: rankings.after[end]}, wanted, hotel))
    ways.append(_way(ORACLE, "references", of_silver, wanted, hotel))
    return ways


def _way(
    name: str,
    kind: str,
    rows: Mapping[int, list[int]],
    wanted: Mapping[int, str],
    hotel: Hotel,
    seconds: float = 0.0,
    summaries: int = 0,
) -> Way:
    entity = hotel.entity
    end = len(entity.sentences)
    texts = {mark: text_of(of, entity.sentences) for mark, of in rows.items()}
    human = {mark: scored(text, hotel.references) for mark, text in texts.items()}
    return Way(
        name,
        kind,
        {mark: rouge(text, wanted[mark]) for mark, text in texts.items()},
        {protocol: {mark: of[protocol] for mark, of in human.items()} for protocol in PROTOCOLS},
        Final(
            human[end], len(texts[end].split()), repeats(entity, rows[end]), near(entity, rows[end])
        ),
        seconds,
        summaries,
    )


def repeats(entity: Entity, rows: Sequence[int]) -> float:
    """The mean cosine of two of the sentences; 0 where there are not two."""
    if len(rows) < 2:
        return 0.0
    unit = entity.unit[list(rows)]
    cosines = unit @ unit.T
    return float(cosines[np.triu_indices(len(rows), 1)].mean())


def near(entity: Entity, rows: Sequence[int]) -> float:
    """The mean, over all sentences, of the cosine to the one of the summary that is most
    like it.
    """
    if not len(rows):
        return 0.0
    unit = entity.unit
    return float((unit @ unit[list(rows)].T).max(axis=1).mean())


# ---- over all hotels


def on_the_way(
    entities: Sequence[Entity], ways: Sequence[Sequence[Way]]
) -> list[dict[str, object]]:
    """A row a contender: means over time and then over hotels; `ms` of processor time for a
    summary.
    """
    marks = [marks_of(entity) for entity in entities]
    rows: list[dict[str, object]] = []
    for name, of in _by_name(ways).items():
        if name == UNCUT:
            continue
        row: dict[str, object] = {"method": name, "kind": of[0][1].kind}
        for every in (SENTENCES, REVIEWS):
            row[f"silver_{every}"] = rounded(
                average(
                    average(way.silver[mark] for mark in marks[hotel][every]) for hotel, way in of
                )
            )
        for protocol in PROTOCOLS:
            row[protocol] = rounded(
                average(
                    average(way.human[protocol][mark] for mark in marks[hotel][SENTENCES])
                    for hotel, way in of
                )
            )
        summaries = sum(way.summaries for _, way in of)
        row["ms"] = (
            round(1000 * sum(way.seconds for _, way in of) / summaries, 3) if summaries else None
        )
        row["a_hotel"] = round(summaries / len(of)) if summaries else None
        rows.append(row)
    return rows


def at_the_end(ways: Sequence[Sequence[Way]]) -> list[dict[str, object]]:
    """A row a contender: means over hotels, and how far R1 is from ours, as a 95 % interval by
    resampling hotels.
    """
    by_name = _by_name(ways)
    ours = [way.final.scores["mean"].r1 for _, way in by_name[OURS]]
    rows: list[dict[str, object]] = []
    for name, of in by_name.items():
        finals = [way.final for _, way in of]
        each = np.zeros(len(ours))
        for hotel, way in of:
            each[hotel] += way.final.scores["mean"].r1 * len(ours) / len(of)
        rows.append(
            {"method": name, "kind": of[0][1].kind}
            | {
                protocol: rounded(average(final.scores[protocol] for final in finals))
                for protocol in PROTOCOLS
            }
            | {
                "words": round(float(np.mean([final.words for final in finals])), 1),
                "repeats": round(float(np.mean([final.repeats for final in finals])), 3),
                "near": round(float(np.mean([final.near for final in finals])), 3),
                "r1_from_ours": interval(each - ours),
            }
        )
    return rows


def curves(ways: Sequence[Sequence[Way]], at_least: int) -> list[dict[str, object]]:
    """R1 against the human summaries as sentences come, the mean of the hotels that have as many; a
    row a contender.
    """
    rows: list[dict[str, object]] = []
    for name, of in _by_name(ways).items():
        if name == UNCUT:
            continue
        curve = []
        for mark in range(EVERY, 10_000, EVERY):
            scores = [way.human["mean"][mark].r1 for _, way in of if mark in way.human["mean"]]
            if len(scores) < at_least * len(of) / len(ways):
                break
            curve.append([mark, round(float(np.mean(scores)), 2)])
        rows.append({"method": name, "r1": curve})
    return rows


def interval(differences: Sequence[float] | np.ndarray, draws: int = 10_000) -> list[float]:
    """The middle 95 % of the mean's differences when entities are drawn again; seeded."""
    values = np.asarray(differences)
    drawn = np.random.default_rng(1).integers(len(values), size=(draws, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), (2.5, 97.5))
    return [round(float(low), 2), round(float(high), 2)]


def _by_name(ways: Sequence[Sequence[Way]]) -> dict[str, list[tuple[int, Way]]]:
    """By contender, with the hotel's number; one with several seeds has several a hotel."""
    found: dict[str, list[tuple[int, Way]]] = {}
    for hotel, of in enumerate(ways):
        for way in of:
            found.setdefault(way.name, []).append((hotel, way))
    return found
