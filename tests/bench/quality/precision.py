"""What bf16 changes: the scores of summaries and of overviews of facets on SPACE's hotels, and the
sets of sentences of every entity, beside those of fp32.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from tests.bench.paper import record
from tests.bench.paper.plan import K
from tests.bench.quality import aspects, data, facets
from tests.bench.quality.contenders import OURS
from tests.bench.quality.entity import Entity
from tests.bench.quality.facets_study import _facets
from tests.bench.quality.hotels import Hotel, interval
from tests.bench.quality.rouge import NAMES, average, rounded
from tests.bench.quality.study import NAME, PRODUCT_REVIEWS, Row, Study, _size
from tests.bench.streams import embedded

PRECISIONS: Final = ("fp32", "bf16")
ENTITIES: Final = {"SPACE": "a hotel", "Amazon": "a product", "Airbnb": "a stay"}


class PrecisionStudy(Study):
    """The run; raises as `Study.run` does."""

    def run(self) -> Row:
        """The record, which is written too."""
        found, references, _ = self._begun("--precision ")
        scores: dict[str, Sequence[facets.Seen]] = {}
        entities: dict[str, dict[str, list[Entity]]] = {name: {} for name in ENTITIES}
        for precision in PRECISIONS:
            embed = partial(embedded, precision=precision)
            judged = self._hotels(references, data.hotels(self.folder, embed))
            scores[precision] = self._seen(judged, references, embed)
            entities["SPACE"][precision] = [hotel.entity for hotel in judged]
            entities["Amazon"][precision] = data.products(self.folder, PRODUCT_REVIEWS, embed)
            entities["Airbnb"][precision] = data.stays(embed=embed)
        found |= {"rouge": rouge(scores), "protocol": NAMES["mean"]}
        found["sets"] = [_size(name, of["fp32"]) | overlap(of) for name, of in entities.items()]
        record.write(self.results / f"{NAME}_bf16.json", found)
        return found

    def _seen(
        self, judged: Sequence[Hotel], references: data.References, embed: data.Embed
    ) -> list[facets.Seen]:
        words = aspects.budgets(data.references(self.folder, "dev"))
        name, threshold = "one sentence each", facets.THRESHOLD
        sets = {(name, threshold): facets.facets_of(facets.PHRASINGS[name], threshold, embed)}
        look = partial(_facets, seeds=data.seeds(self.folder), words=words, sets=sets, k=K)
        tasks = [
            (hotel, {aspect: references[aspect][hotel.entity.id] for aspect in words})
            for hotel in judged
        ]
        return self._over("facets", look, tasks)


def rouge(scores: dict[str, Sequence[facets.Seen]]) -> list[Row]:
    """Of summaries and of overviews of facets: the scores of both, the 95 % interval of ROUGE-1 of
    fp32, and that of the difference, by resampling hotels.
    """
    rows = []
    for method in (OURS, facets.FACETS):
        of = {
            precision: [one.overviews[method].scores["mean"] for one in seen]
            for precision, seen in scores.items()
        }
        r1 = {precision: np.array([one.r1 for one in each]) for precision, each in of.items()}
        rows.append(
            {"method": method}
            | {precision: rounded(average(each)) for precision, each in of.items()}
            | {
                "fp32_interval": interval(r1["fp32"]),
                "difference": interval(r1["bf16"] - r1["fp32"]),
            }
        )
    return rows


def overlap(entities: dict[str, list[Entity]]) -> Row:
    """How many of the K sentences of an entity are the same, and how many entities have the same
    set; the cosines of a sentence's two vectors.
    """
    shares, cosines = [], []
    for one, other in zip(entities["fp32"], entities["bf16"], strict=True):
        first, second = (
            set(facets.central(of, range(len(of.sentences)), K)) for of in (one, other)
        )
        shares.append(len(first & second) / max(len(first), 1))
        lengths = np.linalg.norm(one.unit, axis=1) * np.linalg.norm(other.unit, axis=1)
        cosines.append((one.unit * other.unit).sum(axis=1) / lengths)
    every = np.concatenate(cosines)
    return {
        "overlap": round(float(np.mean(shares)), 4),
        "identical": sum(share == 1 for share in shares),
        "cosine_mean": round(float(every.mean()), 6),
        "cosine_least": round(float(every.min()), 5),
    }
