"""Aspect by aspect: what the sentences of one aspect come to when they have a centroid of their
own.

A sentence is of the aspect whose seed words weigh most in it, each counted once, and of none where
it has none of them. `ours` sends the sentences of each aspect under an entity id of its own; `ours,
the general set` is what somebody gets who looks for an aspect in the summary of everything. A
summary may have as many words as the mean of the *development* hotels' references of the aspect:
SPACE's test hotels set nothing.
"""

import re
from collections.abc import Mapping, Sequence

from tests.bench.paper.methods import METHODS, Setting
from tests.bench.quality.contenders import OURS, contenders, step_by_step
from tests.bench.quality.data import GENERAL
from tests.bench.quality.hotels import ORACLE, Hotel
from tests.bench.quality.rouge import PROTOCOLS, Rouge, average, rounded, scored
from tests.bench.quality.silver import Silver
from tests.bench.quality.walk import text_of, walk

ASKED = ("random", "SumBasic", "LexRank")
FROM_GENERAL = "ours, the general set"
PUBLISHED = {"lexrank_stefanos": "LexRank (QT's authors)", "qt_stefanos": "QT"}
_WORD = re.compile(r"[a-z]+")

# by aspect and method, one a seed, by protocol
Scores = dict[str, dict[str, list[dict[str, Rouge]]]]


def aspect_of(sentence: str, seeds: Mapping[str, Mapping[str, float]]) -> str | None:
    """The aspect whose words weigh most; of equal ones the first."""
    words = set(_WORD.findall(sentence.lower()))
    weights = {aspect: sum(of.get(word, 0.0) for word in words) for aspect, of in seeds.items()}
    best = max(weights, key=lambda aspect: weights[aspect], default=None)
    return best if best is not None and weights[best] > 0 else None


def budgets(references: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, int]:
    """Words of a summary of each aspect: the rounded mean of these references."""
    lengths = {
        aspect: [len(text.split()) for texts in of.values() for text in texts]
        for aspect, of in references.items()
        if aspect != GENERAL
    }
    return {aspect: round(sum(of) / len(of)) for aspect, of in lengths.items()}


def look_at(
    hotel: Hotel,
    references: Mapping[str, Sequence[str]],
    published: Mapping[str, Mapping[str, str]],
    seeds: Mapping[str, Mapping[str, float]],
    words: Mapping[str, int],
    setting: Setting,
) -> Scores:
    """One hotel. `references` and `published` by aspect; `published` by system then."""
    entity, _, tfidf = hotel
    found = [aspect_of(sentence, seeds) for sentence in entity.sentences]
    end = len(entity.sentences)
    general = step_by_step(METHODS["exact"], setting, entity, [end]).after[end]
    asked = contenders(setting, ASKED)
    scores: Scores = {}
    for aspect, wanted in references.items():
        rows = [row for row, of in enumerate(found) if of == aspect]
        part, likeness, most = entity.only(rows), tfidf[rows], words[aspect]
        count = len(rows)
        texts = {
            OURS: [
                step_by_step(METHODS["exact"], setting, part, [count]).after[count] if count else []
            ],
            ORACLE: [Silver(part.sentences, wanted, most).after(count)],
        }
        for contender in asked if count else ():
            texts.setdefault(contender.name, []).append(contender.make(part, [count]).after[count])
        scores[aspect] = {
            name: [
                scored(
                    text_of(walk(ranked, part.sentences, likeness, most), part.sentences), wanted
                )
                for ranked in of
            ]
            for name, of in texts.items()
        }
        from_general = text_of(walk(general, entity.sentences, tfidf, most), entity.sentences)
        scores[aspect][FROM_GENERAL] = [scored(from_general, wanted)]
        for system, title in PUBLISHED.items():
            if text := published.get(aspect, {}).get(system):
                scores[aspect][title] = [scored(text, wanted)]
    return scores


def over_all(scores: Sequence[Scores]) -> list[dict[str, object]]:
    """R1, R2 and RL by aspect, method and protocol, the mean of the hotels; a row an aspect and
    method.
    """
    rows: list[dict[str, object]] = []
    for aspect in sorted({aspect for score in scores for aspect in score}):
        for method in dict.fromkeys(name for score in scores for name in score[aspect]):
            of = [score for of_aspects in scores for score in of_aspects[aspect].get(method, ())]
            rows.append(
                {"aspect": aspect, "method": method}
                | {
                    protocol: rounded(average(figures[protocol] for figures in of))
                    for protocol in PROTOCOLS
                }
            )
    return rows
