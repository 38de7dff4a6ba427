"""All of it: the parts one after the other, each over all cores, into one record and its figures.

Nothing is done before published texts have scored what they are known to score (`calibration`).
What the paper's methods are set to is found on the Airbnb sample, never on what they are judged by.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from scipy.sparse import csr_array

from tests.bench import machine, streams
from tests.bench.judge import added, brute_force
from tests.bench.paper import record
from tests.bench.paper.measure import search
from tests.bench.paper.methods import METHODS, Setting
from tests.bench.paper.plan import QUICK, K
from tests.bench.paper.screen import Screen
from tests.bench.quality import aspects, contenders, data, hotels, staleness, tracking, views
from tests.bench.quality.calibration import ROUGE_155, NotCalibrated, calibrate, system_score
from tests.bench.quality.entity import Entity
from tests.bench.quality.figures import Figures
from tests.bench.quality.hotels import Hotel, Way
from tests.bench.quality.ranking.by_sumy import differing
from tests.bench.quality.rouge import NAMES, rounded
from tests.bench.quality.walk import vectorizer
from tests.bench.quality.words import content_words
from worker.text.embedders import available_cores

PROGRAM = "tests.bench.quality"
NAME = "quality"
PRODUCT_REVIEWS = 1_000  # of a product that is looked at, as in the paper
TUNED_ON = 1_000  # sentences
SHOWN_HOTELS = 2  # whose polarity is drawn: the first by id
OTHERS = {
    "random_review": "a review drawn by chance",
    "centroid_review": "the review nearest to the centroid",
    "lexrank_stefanos": "LexRank (QT's authors)",
    "qt_stefanos": "QT",
    "semae": "SemAE",
    "hercules_ext": "Hercules, extractive",
    "hiro_ext": "HIRO, extractive",
}

Row = dict[str, Any]
Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Study:
    """The run. `run` raises DataError where data are missing, NotCalibrated where scores are not
    what they should be.
    """

    def __init__(self, folder: Path, screen: Screen, results: Path = record.RESULTS) -> None:
        self.folder, self.screen, self.results = folder, screen, results
        self.seconds: dict[str, float] = {}

    def run(self) -> Row:
        """All parts; the record, which is written too."""
        found, references, published = self._begun()
        self.setting, found["parameters"] = self._timed("parameters", tuned)
        judged, products, stays = self._timed("vectors", lambda: self._read(references))
        entities = [hotel.entity for hotel in judged]
        sets = (("SPACE", entities), ("Amazon", products), ("Airbnb", stays))
        found["sets"] = [_size(name, of) for name, of in sets]
        self._hold_against_sumy(entities[0])
        found |= _rouge(
            entities, self._over("hotels", partial(hotels.look_at, setting=self.setting), judged)
        )
        found["others"] = _others(published[data.GENERAL], references[data.GENERAL])
        found["aspects"], found["budgets"] = self._aspects(judged, references, published)
        found["tracking"], found["courses"] = self._tracking(judged, products)
        found["staleness"] = self._staleness(judged, products, stays)
        found["views"] = self._views(entities, products, stays)
        found["seconds"] = {name: round(value, 1) for name, value in self.seconds.items()}
        record.write(self.results / f"{NAME}.json", found)
        Figures(self.results, NAME).draw(found)
        return found

    # ---- parts

    def _begun(self, option: str = "") -> tuple[Row, data.References, data.Published]:
        """The beginning of a record, by the published texts' scores; and the data. `option`: of the
        command.
        """
        data.check(self.folder)
        # any folder
        found: Row = machine.began(PROGRAM) | {
            "command": f"python -m {PROGRAM} {option}--data FOLDER"
        }
        references, published = data.references(self.folder), data.published(self.folder)
        found |= self._calibrated(published[data.GENERAL], references[data.GENERAL])
        return found, references, published

    def _calibrated(
        self, published: Mapping[str, Mapping[str, str]], references: Mapping[str, Sequence[str]]
    ) -> Row:
        """Raises NotCalibrated."""
        self.screen.say(
            f"scores: rouge-score {version('rouge-score')}, stemmed; {'; '.join(NAMES.values())}"
        )
        rows = calibrate(published, references)
        self.screen.say(
            f"calibrated: {len(rows)} published systems score what they are known to score"
        )
        if missing := contenders.left_out():
            self.screen.say(f"left out for want of a library: {', '.join(missing)}")
        return {
            "libraries": {
                name: version(name) for name in ("rouge-score", "scikit-learn", "vaderSentiment")
            },
            "protocols": NAMES | {"rouge_155": ROUGE_155},
            "calibration": rows,
        }

    def _hold_against_sumy(self, entity: Entity) -> None:
        """Raises NotCalibrated where a classic ranking is not sumy's."""
        try:
            wrong = differing([content_words(sentence) for sentence in entity.sentences])
        except ImportError:
            self.screen.say(
                "classic rankings not held against sumy: it is not installed (pip install sumy)"
            )
            return
        if wrong:
            raise NotCalibrated(f"not as sumy ranks sentences of {entity.id}: {', '.join(wrong)}")
        self.screen.say(
            f"SumBasic, LexRank, TextRank and sumy's LSA: as sumy {version('sumy')} ranks"
        )

    def _read(self, references: data.References) -> tuple[list[Hotel], list[Entity], list[Entity]]:
        judged = self._hotels(references)
        return judged, data.products(self.folder, PRODUCT_REVIEWS), data.stays()

    def _hotels(
        self, references: data.References, entities: list[Entity] | None = None
    ) -> list[Hotel]:
        entities = data.hotels(self.folder) if entities is None else entities
        data.check_references(entities, references)
        fitted = vectorizer([sentence for entity in entities for sentence in entity.sentences])
        return [
            Hotel(
                entity,
                references[data.GENERAL][entity.id],
                csr_array(fitted.transform(entity.sentences)),
            )
            for entity in entities
        ]

    def _aspects(
        self, judged: Sequence[Hotel], references: data.References, published: data.Published
    ) -> tuple[list[Row], dict[str, int]]:
        seeds = data.seeds(self.folder)
        words = aspects.budgets(data.references(self.folder, "dev"))
        tasks = [
            (
                hotel,
                {aspect: references[aspect][hotel.entity.id] for aspect in words},
                {
                    aspect: {
                        system: texts[hotel.entity.id]
                        for system, texts in published.get(aspect, {}).items()
                    }
                    for aspect in words
                },
            )
            for hotel in judged
        ]
        scores = self._over(
            "aspects", partial(_aspects, seeds=seeds, words=words, setting=self.setting), tasks
        )
        return aspects.over_all(scores), words

    def _tracking(
        self, judged: Sequence[Hotel], products: Sequence[Entity]
    ) -> tuple[list[Row], list[Row]]:
        entities = [hotel.entity for hotel in judged]
        tasks: list[tuple[str, Entity, str]] = [
            ("rating", product, order) for product in products for order in tracking.ORDERS
        ]
        tasks += [("polarity", entity, "temporal") for entity in entities]
        tasks += [("aspects", entity, "aspect by aspect") for entity in entities]
        seeds = data.seeds(self.folder)
        answers = self._over("tracking", partial(_track, seeds=seeds, setting=self.setting), tasks)
        shown = {
            ("rating", products[0].id if products else ""),
            ("aspects", entities[0].id),
            *(("polarity", hotel.id) for hotel in entities[:SHOWN_HOTELS]),
        }
        references = {hotel.entity.id: hotel.references for hotel in judged}
        rows, courses = [], []
        for (what, entity, order), found in zip(tasks, answers, strict=True):
            head = {"what": what, "entity": entity.id, "order": order}
            human = (
                tracking.polarity_of_texts(references[entity.id]) if what == "polarity" else None
            )
            against = {} if human is None else {"human": human}
            rows.append(
                head
                | {"reviews": len(entity.ratings)}
                | {"errors": {name: round(course.error, 4) for name, course in found.items()}}
                | against
                | {"last": _last(found)}
            )
            if (what, entity.id) in shown:
                courses += [
                    head | against | {"method": name, "points": course.thinned()}
                    for name, course in found.items()
                ]
        return rows, courses

    def _staleness(
        self, judged: Sequence[Hotel], products: Sequence[Entity], stays: Sequence[Entity]
    ) -> list[Row]:
        tasks: list[tuple[Entity, Hotel | None]] = [
            (entity, None) for entity in (*products, *stays)
        ]
        tasks += [(hotel.entity, hotel) for hotel in judged]
        sent = self._over("staleness", partial(_stale, setting=self.setting), tasks)
        largest, all_products, all_stays = (
            len(products[:1]),
            len(products),
            len(products) + len(stays),
        )
        groups = {
            "Amazon, the largest product": sent[:largest],
            "Amazon, a product": sent[:all_products],
            "Airbnb, a stay": sent[all_products:all_stays],
            "SPACE, a hotel": sent[all_stays:],
        }
        return [line for name, of in groups.items() if of for line in staleness.row(name, of)]

    def _views(
        self, entities: Sequence[Entity], products: Sequence[Entity], stays: Sequence[Entity]
    ) -> list[Row]:
        groups = {
            "Amazon, the largest product": products[:1],
            "Airbnb, a stay": stays,
            "SPACE, a hotel": entities,
        }
        tasks = [entity for of in groups.values() for entity in of]
        seen = iter(self._over("views", partial(views.look_at, setting=self.setting), tasks))
        return [
            line
            for name, of in groups.items()
            if of
            for line in views.row(name, [next(seen) for _ in of])
        ]

    # ---- how

    def _timed(self, name: str, do: Callable[[], Answer]) -> Answer:
        start = time.monotonic()
        answer = do()
        self.seconds[name] = time.monotonic() - start
        return answer

    def _over(self, name: str, do: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
        """Each task in one of as many processes as there are cores; answers in the order of the
        tasks.
        """

        def all_() -> list[Answer]:
            with (
                ProcessPoolExecutor(available_cores(), mp_context=get_context("spawn")) as pool,
                self.screen.bar(name, len(tasks)) as advance,
            ):
                answers = []
                for answer in pool.map(do, tasks):
                    answers.append(answer)
                    advance(len(answers))
                return answers

        answers = self._timed(name, all_)
        self.screen.say(f"{name}: {len(tasks)} tasks in {self.seconds[name]:.0f} s")
        return answers


def tuned() -> tuple[Setting, Row]:
    """k, b and the paper's alpha, by its grid search on the sentences of a stay that nothing else
    is measured on.
    """
    vectors = streams.reviews(streams.BUNDLED, TUNED_ON, rank=1).vectors
    width = float(int(vectors.max()) - int(vectors.min()))
    setting = Setting(K, vectors.shape[1], width)
    choice = search(
        lambda alpha: METHODS["coversumm-lazy"].make(setting._replace(alpha=alpha)),
        QUICK.grid,
        added(vectors),
        brute_force(vectors, K),
        QUICK.grid_budget,
    )
    setting = setting._replace(alpha=choice.value)
    return setting, {
        "k": K,
        "alpha": setting.alpha,
        "b": width,
        "c_max": setting.c_max,
        "found_on": f"the first {len(vectors):,} sentences of the Airbnb sample's second largest "
        "stay",
    }


def sample(screen: Screen) -> list[Row]:
    """What the stays that come with the project can tell without any other data: staleness and
    polarity. Not recorded.
    """
    setting, _ = tuned()
    stays = data.stays()
    rows = staleness.row("Airbnb, a stay", [staleness.look_at(stay, setting) for stay in stays])
    for stay in stays:
        found = tracking.polarity(stay, setting)
        errors = ", ".join(f"{name} {course.error:.3f}" for name, course in found.items())
        screen.say(f"polarity of {stay.id}, mean absolute difference: {errors}")
    return rows


def _rouge(entities: Sequence[Entity], ways: Sequence[Sequence[Way]]) -> Row:
    return {
        "on_the_way": hotels.on_the_way(entities, ways),
        "at_the_end": hotels.at_the_end(ways),
        "curves": hotels.curves(ways, at_least=len(ways) // 2),
    }


def _others(
    published: Mapping[str, Mapping[str, str]], references: Mapping[str, Sequence[str]]
) -> list[Row]:
    """Published texts, to stand beside ours."""
    rows = []
    for system, title in OTHERS.items():
        if system not in published:
            continue
        score = system_score(published[system], references)
        rows.append({"system": title} | {protocol: rounded(of) for protocol, of in score.items()})
    return rows


def _aspects(
    task: tuple[Hotel, Any, Any], seeds: Any, words: Any, setting: Setting
) -> aspects.Scores:
    hotel, references, published = task
    return aspects.look_at(hotel, references, published, seeds, words, setting)


def _track(
    task: tuple[str, Entity, str], seeds: Any, setting: Setting
) -> dict[str, tracking.Course]:
    what, entity, order = task
    if what == "rating":
        return tracking.ratings(entity, order, setting)
    if what == "polarity":
        return tracking.polarity(entity, setting)
    return tracking.aspects(entity, seeds, setting)


def _stale(task: tuple[Entity, Hotel | None], setting: Setting) -> list[staleness.Sent]:
    entity, hotel = task
    return staleness.look_at(entity, setting, hotel)


def _last(found: dict[str, tracking.Course]) -> dict[str, float]:
    """What all sentences say at the end, and what each summary does."""
    some = next(iter(found.values()))
    return {"all": round(float(some.all[-1]), 3)} | {
        name: round(float(course.summary[-1]), 3) for name, course in found.items()
    }


def _size(name: str, entities: Sequence[Entity]) -> Row:
    return {
        "set": name,
        "entities": len(entities),
        "reviews": sum(len(entity.ratings) for entity in entities),
        "sentences": sum(len(entity.sentences) for entity in entities),
    }
