"""The data sets: which files, where they are from, what a line of them has. They are never part of
this repository.

A line that is not what is wanted is an error that names the file, the line and the field.
"""

import gzip
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tests.bench.quality.entity import Entity, Review, entity
from tests.bench.streams import BUNDLED, embedded
from worker.text.splitting import split_sentences

Embed = Callable[[list[str]], NDArray[np.int16]]
References = dict[str, dict[str, list[str]]]
"""Human summaries by aspect and hotel."""
Published = dict[str, dict[str, dict[str, str]]]
"""Texts of published systems by aspect, system and hotel."""
MAX_CHARS = 2000  # of a sentence, the worker's default
GENERAL = "general"


class DataError(Exception):
    """Data that are missing or not what they should be; the message says what to do."""


class Source(NamedTuple):
    """A file, what is in it, and who publishes that."""

    name: str
    what: str
    where: str


HOTELS = Source(
    "space_test_reviews.jsonl.gz",
    "the 25 test hotels of SPACE, 100 reviews each: entity_id, review_id, rating, order_key, "
    "sentences",
    "SPACE, https://github.com/stangelid/qt",
)
REFERENCES = Source(
    "space_gold_summaries.jsonl.gz",
    "the human summaries of SPACE: entity_id, split, aspect, ref, text",
    "SPACE, https://github.com/stangelid/qt",
)
PUBLISHED = Source(
    "space_test_system_outputs.jsonl.gz",
    "what published systems wrote for the same hotels: entity_id, system, aspect, text",
    "https://github.com/tomhosking/hercules, output/space",
)
SEEDS = Source(
    "space_aspect_seeds.json",
    "words of the six aspects with their weights: {aspect: [[weight, word], ...]}",
    "SPACE's seeds, https://github.com/stangelid/qt",
)
PRODUCTS = Source(
    "amazon_datafiniti.jsonl.gz",
    "reviews of Amazon's devices: entity_id, review_id, rating, created_at, text",
    "Consumer Reviews of Amazon Products by Datafiniti, https://www.kaggle.com/datafiniti",
)
OTHER_HOTELS = Source(
    "small_dev.jsonl.gz",
    "reviews of other hotels, whose ids begin with lara: (others are skipped): entity_id, text",
    "LARA's reviews of TripAdvisor, https://www.cs.virginia.edu/~hw5x/dataset.html",
)
OTHER_HOTELS_BEGIN = "lara:"
SOURCES = (HOTELS, REFERENCES, PUBLISHED, SEEDS, PRODUCTS, OTHER_HOTELS)


def check(folder: Path) -> None:
    """Raise DataError, with a line for each file that is not there."""
    missing = [source for source in SOURCES if not (folder / source.name).is_file()]
    if missing:
        lines = [f"  {source.name}: {source.what}\n    from {source.where}" for source in missing]
        raise DataError(
            "\n".join(
                [
                    f"the folder {folder} does not have all that is needed:",
                    *lines,
                    "JSON lines, packed by gzip; docs/quality.md has an example of each. Say where "
                    "they are with "
                    "DATA=FOLDER, --data FOLDER or QUALITY_DATA=FOLDER; --sample does without them "
                    "what can be done "
                    "without them.",
                ]
            )
        )


# ---- lines


class HotelReview(msgspec.Struct):
    entity_id: str
    sentences: list[str]
    order_key: int
    rating: float | None = None


class Reference(msgspec.Struct):
    entity_id: str
    split: str
    aspect: str
    text: str


class Output(msgspec.Struct):
    entity_id: str
    system: str
    aspect: str
    text: str


class TextReview(msgspec.Struct):
    entity_id: str
    text: str | None = None
    rating: float | None = None
    created_at: str | None = None


Line = TypeVar("Line")


def lines(path: Path, type_: type[Line]) -> Iterator[Line]:
    """The lines of a packed file. Raises DataError."""
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield msgspec.json.decode(line, type=type_)
                except msgspec.MsgspecError as error:
                    raise DataError(f"{path.name}, line {number}: {error}") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{path.name} cannot be read: {error}") from None


# ---- entities


def hotels(folder: Path, embed: Embed = embedded) -> list[Entity]:
    """The test hotels of SPACE with their own sentences, by their true order of arrival."""
    reviews: dict[str, list[HotelReview]] = {}
    for review in lines(folder / HOTELS.name, HotelReview):
        reviews.setdefault(review.entity_id, []).append(review)
    return [
        _embedded(
            id_,
            [
                Review(
                    [sentence for sentence in review.sentences if sentence.strip()], review.rating
                )
                for review in sorted(of, key=lambda review: review.order_key)
            ],
            embed,
        )
        for id_, of in sorted(reviews.items())
    ]


def products(
    folder: Path, at_least: int, embed: Embed = embedded, most: int | None = None
) -> list[Entity]:
    """Amazon's products with at least so many dated and rated reviews, the largest first, each by
    date; at most so many.
    """
    usable = [
        review
        for review in lines(folder / PRODUCTS.name, TextReview)
        if review.rating is not None and review.created_at is not None
    ]
    usable.sort(key=lambda review: review.created_at or "")
    return of_texts(usable, at_least, embed, most)


def stays(
    at_least: int = 1,
    path: Path = BUNDLED,
    embed: Embed = embedded,
    most: int | None = None,
    begins: str = "",
) -> list[Entity]:
    """The Airbnb stays that come with the project, the one with the most reviews first; at most so
    many, or only those whose ids begin with `begins`.
    """
    reviews = [line for line in lines(path, TextReview) if line.entity_id.startswith(begins)]
    return of_texts(reviews, at_least, embed, most)


def of_texts(
    reviews: list[TextReview], at_least: int, embed: Embed, most: int | None = None
) -> list[Entity]:
    """The entities with at least so many of these reviews, the largest `most`; reviews in order."""
    counts = Counter(review.entity_id for review in reviews)
    wanted = [id_ for id_, count in counts.most_common(most) if count >= at_least]
    split: dict[str, list[Review]] = {id_: [] for id_ in wanted}
    for review in reviews:
        if review.entity_id in split:
            split[review.entity_id].append(
                Review(split_sentences(review.text or "", MAX_CHARS), review.rating)
            )
    return [_embedded(id_, of, embed) for id_, of in split.items()]


def _embedded(id_: str, reviews: list[Review], embed: Embed) -> Entity:
    return entity(
        id_, reviews, embed([sentence for review in reviews for sentence in review.sentences])
    )


# ---- what hotels are held against


def references(folder: Path, split: str = "test") -> References:
    """The human summaries."""
    found: References = {}
    for line in lines(folder / REFERENCES.name, Reference):
        if line.split == split:
            found.setdefault(line.aspect, {}).setdefault(line.entity_id, []).append(line.text)
    return found


def check_references(
    entities: Sequence[Entity], found: Mapping[str, Mapping[str, Sequence[str]]]
) -> None:
    """Raise DataError unless every hotel has references of everything that any has."""
    for aspect, of in {GENERAL: {}, **found}.items():
        if missing := sorted({entity.id for entity in entities} - set(of)):
            raise DataError(
                f"{REFERENCES.name}: no reference of the aspect {aspect!r} for {', '.join(missing)}"
            )


def published(folder: Path) -> Published:
    """What published systems wrote."""
    found: Published = {}
    for line in lines(folder / PUBLISHED.name, Output):
        found.setdefault(line.aspect, {}).setdefault(line.system, {})[line.entity_id] = line.text
    return found


def seeds(folder: Path) -> dict[str, dict[str, float]]:
    """The words of each aspect, with weights. Raises DataError."""
    path = folder / SEEDS.name
    try:
        found = msgspec.json.decode(
            path.read_bytes(), type=dict[str, list[tuple[float, str]]], strict=False
        )
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path.name}: {error}") from None
    return {aspect: {word: weight for weight, word in words} for aspect, words in found.items()}
