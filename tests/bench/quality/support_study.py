"""The study of support, and of suggested facets; with a record of its own."""

from collections.abc import Sequence
from functools import partial

from tests.bench.paper import record
from tests.bench.paper.plan import K
from tests.bench.quality import data, facets, suggested, support
from tests.bench.quality.calibration import system_score
from tests.bench.quality.contenders import OURS
from tests.bench.quality.facets_study import SYSTEMS, FacetStudy
from tests.bench.quality.hotels import Hotel, interval
from tests.bench.quality.rouge import average, rounded
from tests.bench.quality.study import NAME, OTHERS, Row
from worker.text.splitting import split_sentences

PEOPLE = "people"


class SupportStudy(FacetStudy):
    """The run; raises as `Study.run` does."""

    def run(self) -> Row:
        """Both parts; the record, which is written too."""
        found, references, published = self._begun("--support ")
        hotels = self._timed("vectors", lambda: self._hotels(references))
        plain = facets.facets_of(facets.PLAIN, facets.THRESHOLD, self.embed)
        ours = {
            facets.FACETS: [suggested.overview(hotel, plain, K) for hotel in hotels],
            OURS: [_everything(hotel) for hotel in hotels],
        }
        found["support"] = self._timed(
            "support", lambda: self._support(hotels, ours, published[data.GENERAL])
        )
        found["suggested"] = self._timed("suggested", lambda: self._suggested(hotels, ours))
        found["seconds"] = {name: round(value, 1) for name, value in self.seconds.items()}
        record.write(self.results / f"{NAME}_support.json", found)
        return found

    def _support(
        self,
        hotels: Sequence[Hotel],
        ours: dict[str, list[list[int]]],
        published: dict[str, dict[str, str]],
    ) -> list[Row]:
        """A row a summary, with its ROUGE where it is scored against people's."""
        rows = []
        for name, of in ours.items():
            scores = [suggested.score(*pair) for pair in zip(hotels, of, strict=True)]
            said = [
                support.supported(hotel.entity, hotel.entity.vectors[chosen])
                for hotel, chosen in zip(hotels, of, strict=True)
            ]
            mean = rounded(average(score["mean"] for score in scores))
            rows.append(support.row(name, said) | {"published": False, "mean": mean})
        references = {hotel.entity.id: hotel.references for hotel in hotels}
        titles = {name: title for name, title in {**OTHERS, **SYSTEMS}.items() if name in published}
        texts = {
            title: [[published[name].get(id_, "")] for id_ in references]
            for name, title in titles.items()
        }
        texts[PEOPLE] = [list(of) for of in references.values()]
        vectors = self._vectors([text for of in texts.values() for each in of for text in each])
        for title, of in texts.items():
            said = [
                support.supported(hotel.entity, vectors[text])
                for hotel, each in zip(hotels, of, strict=True)
                for text in each
            ]
            rows.append(support.row(title, said) | {"published": True})
        for name, title in titles.items():
            (shown,) = (row for row in rows if row["summary"] == title)
            shown["mean"] = rounded(system_score(published[name], references)["mean"])
        return rows

    def _vectors(self, texts: list[str]) -> dict[str, support.Vectors]:
        """Of the sentences of each text."""
        split = {text: split_sentences(text, data.MAX_CHARS) for text in texts}
        all_ = self.embed([sentence for of in split.values() for sentence in of])
        found, at = {}, 0
        for text, of in split.items():
            found[text] = all_[at : at + len(of)]
            at += len(of)
        return found

    def _suggested(self, hotels: Sequence[Hotel], ours: dict[str, list[list[int]]]) -> Row:
        """A row a number of facets, and of what they were made."""
        begins = data.OTHER_HOTELS_BEGIN
        lines = data.lines(self.folder / data.OTHER_HOTELS.name, data.TextReview)
        reviews = [line for line in lines if line.entity_id.startswith(begins)]
        others = suggested.reviews_of(reviews)
        written, everything = (
            [suggested.score(*pair)["mean"].r1 for pair in zip(hotels, ours[name], strict=True)]
            for name in (facets.FACETS, OURS)
        )
        rows = []
        for count in suggested.COUNTS:
            criteria = suggested.suggestions(others, count, self.embed)
            take = partial(suggested.overview, facets=criteria, k=K)
            scores = [suggested.score(hotel, take(hotel)) for hotel in hotels]
            r1 = [score["mean"].r1 for score in scores]
            rows.append(
                {
                    "asked": count,
                    "shown": len(criteria.definitions.visible),
                    "mean": rounded(average(score["mean"] for score in scores)),
                    "from_written": interval([a - b for a, b in zip(r1, written, strict=True)]),
                    "from_plain": interval([a - b for a, b in zip(r1, everything, strict=True)]),
                }
            )
        return {
            "hotels": len({review.entity for review in others}),
            "reviews": len(others),
            "overviews": rows,
        }


def _everything(hotel: Hotel) -> list[int]:
    rows = list(range(len(hotel.entity.sentences)))
    return suggested.walk(
        facets.central(hotel.entity, rows, K), hotel.entity.sentences, hotel.tfidf
    )
