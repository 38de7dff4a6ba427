"""The study of facets: its parts one after the other, and a record of its own."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.bench import streams
from tests.bench.paper import record
from tests.bench.paper.plan import K
from tests.bench.quality import aspects, data, facets, facets_shown
from tests.bench.quality.entity import Entity
from tests.bench.quality.hotels import Hotel
from tests.bench.quality.rouge import Rouge, scored
from tests.bench.quality.study import NAME, Row, Study
from worker.facets.membership import FacetCriteria

RIVAL = "hercules_ext"  # whose distance to the overview of facets is measured
SYSTEMS = {
    "qt_stefanos": "QT",
    "semae": "SemAE",
    "hiro_ext": "HIRO, extractive",
    RIVAL: "Hercules, extractive",
    "gpt3": "GPT-3, abstractive",
    "bimeanvae_avg": "BiMeanVAE, abstractive",
    "hercules_abs": "Hercules, abstractive",
}

Scored = dict[str, list[dict[str, Rouge]]]
"""By title, one a hotel, by protocol."""


class FacetStudy(Study):
    """The run; raises as `Study.run` does."""

    embed = staticmethod(streams.embedded)

    def run(self) -> Row:
        """Everything with facets; the record, which is written too."""
        found, references, published = self._begun("--facets ")
        judged = self._timed("vectors", lambda: self._hotels(references))
        found |= self._overviews(judged, references, published)
        found |= self._presets([hotel.entity for hotel in judged])
        found["seconds"] = {name: round(value, 1) for name, value in self.seconds.items()}
        record.write(self.results / f"{NAME}_facets.json", found)
        return found

    # ---- parts

    def _overviews(
        self, judged: Sequence[Hotel], references: data.References, published: data.Published
    ) -> Row:
        words = aspects.budgets(data.references(self.folder, "dev"))
        sets = {
            (name, threshold): facets.facets_of(phrasing, threshold, self.embed)
            for name, phrasing in facets.PHRASINGS.items()
            for threshold in facets.THRESHOLDS
        }
        preset = facets_shown.preset_of("hotels", self.embed)
        look = partial(
            _facets, seeds=data.seeds(self.folder), words=words, sets=sets, preset=preset, k=K
        )
        tasks = [
            (hotel, {aspect: references[aspect][hotel.entity.id] for aspect in words})
            for hotel in judged
        ]
        seen = self._over("facets", look, tasks)

        def scores(systems: Mapping[str, str], aspect: str) -> Scored:
            texts = published.get(aspect, {})
            return {
                title: [
                    scored(
                        texts[system].get(hotel.entity.id, ""), references[aspect][hotel.entity.id]
                    )
                    for hotel in judged
                ]
                for system, title in systems.items()
                if system in texts
            }

        return {
            "rival": SYSTEMS[RIVAL],
            "overviews": facets.overviews(seen, scores(SYSTEMS, data.GENERAL), SYSTEMS[RIVAL]),
            "phrasings": facets.phrasings(seen),
            "aspects": facets.by_aspect(
                seen, {aspect: scores(aspects.PUBLISHED, aspect) for aspect in words}
            ),
            "budgets": words,
        }

    def _presets(self, hotels_: Sequence[Entity]) -> Row:
        product = data.products(self.folder, 1, most=1)
        stay = data.stays(most=1)
        groups = (
            ("Amazon, the largest product", "products", product),
            ("Airbnb, the largest stay", "stays", stay),
            ("SPACE, a hotel", "hotels", hotels_),
        )
        presets = {name: facets_shown.preset_of(name, self.embed) for _, name, _ in groups}
        tasks = [(entity, presets[name]) for _, name, of in groups for entity in of]
        shown = iter(self._over("facets shown", partial(_shown, k=K), tasks))
        asked = [
            (entity, presets[name], least)
            for _, name, of in groups[:2]
            for entity in of
            for least in facets_shown.LEAST
        ]
        changes = iter(self._over("facets published", partial(_published, k=K), asked))
        return {
            "shown": [
                facets_shown.shown_row(title, name, [next(shown) for _ in of])
                for title, name, of in groups
            ],
            "changes": [
                {"entities": title, "preset": name} | next(changes)
                for title, name, of in groups[:2]
                for _ in of
                for _ in facets_shown.LEAST
            ],
        }


def _facets(task: tuple[Hotel, Any], **how: Any) -> facets.Seen:
    hotel, references = task
    return facets.look_at(hotel, references, **how)


def _shown(task: tuple[Entity, FacetCriteria], k: int) -> facets_shown.Shown:
    return facets_shown.look_at(*task, k)


def _published(task: tuple[Entity, FacetCriteria, int], k: int) -> Row:
    return facets_shown.published(*task, k)
