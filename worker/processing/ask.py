"""Answers to a reader's question: an entity's sentences, from its stored rows.

A sentence answers if its cosine to the question is high, or somewhat lower while it has the
question's rare words: at least half of them, by their weight in the entity's own sentences. So a
question that nobody speaks of has no answer. Which cosines are high depends on the model, which
declares them (`worker.text.declared`).

An answer depends on the rows and the question alone, not on the order of reading or the machine: a
cosine is that of `worker.coversumm.short_view`, ties go by id, weights are whole numbers. The words
are English: other languages are asked by cosines and by the words that do not change their ends.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nsmallest
from math import log
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import SCALE, VectorError, quantize
from worker.coversumm.short_view import cosines
from worker.events import ReviewDetails
from worker.events.dates import instant, to_timestamp
from worker.facets.quotable import has_template
from worker.facets.words import words_of
from worker.processing.entity_view import EntityView, Source
from worker.state.entity import EntityRows
from worker.state.keys import review_of
from worker.state.rows import decode_review, text_chunks
from worker.text.declared import Answering, facts_of
from worker.text.engine import EmbeddingEngine
from worker.text.language import language_code

Vector = NDArray[np.float32]
"""The embedding of a question, (D,)."""
LONGEST_QUESTION: Final = 500  # characters
MOST_SENTENCES: Final = 50
FEWEST_WORDS, MOST_WORDS = 4, 40  # of a sentence
SAME: Final = 0.8  # sentences with a cosine above it say the same
MOST_READ: Final = 1000
"""Of the nearest sentences the texts are read, until there are enough."""

_OF_QUESTIONS: Final = (
    "a an and any are at be by can could did do does for from get had has have how i if in is it "
    "it's its many me much my need of on or our should that the their there they this to us use "
    "was we were what when where which who why will with would you your"
)
_NOT_ASKED: Final = frozenset(_OF_QUESTIONS.split())
"""Words of questions that say nothing of what is asked."""
_ENDINGS: Final = ("'s", "ing", "ies", "ed", "es", "s")
_BECOME_LETTERS: Final = (
    *map(str.encode, ("ß", "İ", "ŉ", "ſ", "\u0307", "ẚ", "ẞ", "\u212a")),  # the last is the kelvin
    *(b"\xef\xac", b"\xef\xbc", b"\xef\xbd"),  # the first bytes of ligatures and of full width
)
"""UTF-8 of signs whose folded forms have ASCII letters."""


class WrongVector(ValueError):
    """The vector of a question is missing or unusable; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and whose reviews are asked. Raises ValueError, for the user."""

    text: str
    sentences: int = 5
    rating_min: float | None = None
    rating_max: float | None = None
    language: str | None = None  # a primary subtag
    country: str | None = None
    verified: bool | None = None
    since: str | None = None  # RFC 3339
    until: str | None = None  # reviews before this

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST_QUESTION:
            raise ValueError(f"a question has at most {LONGEST_QUESTION} characters")
        if not 1 <= self.sentences <= MOST_SENTENCES:
            raise ValueError(f"sentences is a number from 1 to {MOST_SENTENCES}")

    @property
    def chooses(self) -> bool:
        """True if not all reviews are asked."""
        return replace(self, text="", sentences=1) != Question("", 1)

    def asks(self, details: ReviewDetails) -> bool:
        """True if this review is asked: one without a detail that is chosen by is not."""
        rating, date = details.rating, details.occurred_at
        return (
            (self.rating_min is None or (rating is not None and rating >= self.rating_min))
            and (self.rating_max is None or (rating is not None and rating <= self.rating_max))
            and (self.language is None or language_code(details.language) == self.language)
            and (self.country is None or details.country == self.country)
            and (self.verified is None or details.verified is self.verified)
            and (self.since is None or (date is not None and instant(date) >= instant(self.since)))
            and (self.until is None or (date is not None and instant(date) < instant(self.until)))
        )


_NUMBER: Final = (r"-?[0-9]{1,9}(\.[0-9]{1,9})?", float, "a number such as 3 or 4.5")
_DATE: Final = (".*", to_timestamp, "a date such as 2026-11-20")
_READ: Final[Mapping[str, tuple[str, Callable[[str], Any], str]]] = {
    "sentences": ("[0-9]{1,3}", int, f"a number from 1 to {MOST_SENTENCES}"),
    "rating_min": _NUMBER,
    "rating_max": _NUMBER,
    "language": (".*", language_code, "a language tag such as en"),
    "country": (".*", str, "a country such as NL"),
    "verified": ("true|false", lambda value: value == "true", "true or false"),
    "since": _DATE,
    "until": _DATE,
}
"""What chooses reviews: the form of the word, how it is read, and what it is for people."""


def question_of(text: str, given: Mapping[str, str]) -> Question:
    """The question with what chooses its reviews, as words. Raises ValueError, for the user.

    >>> question_of("Is it quiet?", {"rating_max": "3", "since": "2026-01-01"}).since
    '2026-01-01T00:00:00Z'
    """
    found: dict[str, Any] = {}
    for name, (form, read, what) in _READ.items():
        if name in given:
            value = read(given[name]) if re.fullmatch(form, given[name]) else None
            if value in (None, ""):
                raise ValueError(f"{name} is {what}, not {given[name]!r}")
            found[name] = value
    return Question(text, **found)


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence that answers, with its cosine to the question."""

    rank: int
    sentence_id: str
    review_id: str
    text: str
    rating: float | None
    occurred_at: str | None
    language: str | None
    cosine: float


@dataclass(frozen=True, slots=True)
class RarestWord:
    """The word of the question that the fewest of the asked reviews have, with any ending."""

    word: str
    review_count: int


@dataclass(frozen=True, slots=True)
class Answer(EntityView):
    """What sentences of an entity answer to a question, and the entity's counts."""

    question: str
    answered: bool | None
    """False: nobody says so; None: the model declares no cosines that decide."""
    sentences: tuple[AnswerSentence, ...]
    asked_review_count: int  # the reviews that were asked
    answer_review_count: int | None
    """At least so many of them speak of it; None if the model declares no cosine for it."""
    mentions: RarestWord | None
    partition: int | None = None
    next_offset: int | None = None  # of the input partition: all below is in this answer


@dataclass(frozen=True, slots=True)
class Ask:
    """Reads the answer to a question with this vector, (D,) int16 quantized."""

    question: Question
    vector: NDArray[np.int16]
    answering: Answering | None  # of the model

    def read(self, source: Source) -> Answer:
        """The answer. Raises WrongVector, CorruptRow."""
        entity, question, limits = source.entity, self.question, self.answering
        if len(self.vector) != entity.dimension:
            raise WrongVector(f"vector has {len(self.vector)} numbers, not {entity.dimension}")
        asked = _asked(entity, question) if question.chooses else None
        near, about = _nearest(entity, self.vector, asked, limits)
        weights, rarest = _weights(entity, question.text, asked, source.header.sentences)

        def is_answer(cosine: float, text: str) -> bool:
            if limits is None or cosine >= limits.sure:
                return True
            found = _stems_of(text, weights)
            share = sum(weights[word] for word in found)
            return bool(found) and 2 * share >= sum(weights.values())

        chosen = _choose(entity, near, question.sentences, is_answer)
        about |= {sentence.review_id.encode() for sentence in chosen}
        return Answer(
            *source.counts,
            question=question.text,
            answered=None if limits is None else bool(chosen),
            sentences=chosen,
            asked_review_count=source.header.reviews if asked is None else len(asked),
            answer_review_count=None if limits is None else len(about),
            mentions=rarest,
        )


def asking(question: Question, engine: EmbeddingEngine | None, vector: Vector | None = None) -> Ask:
    """The reader of the answer, from the question's text, or from its `vector` (D,) without an
    engine. Raises WrongVector.
    """
    if engine is None and vector is None:
        raise WrongVector("there is no embedder here: give the question's embedding as vector")
    given = vector if vector is not None else engine.embed([question.text])[0]  # type: ignore[union-attr]
    try:
        (quantized,) = quantize(given[None])
    except VectorError as wrong:
        raise WrongVector(f"vector: {wrong}") from wrong
    return Ask(question, quantized, facts_of(engine).answering if vector is None else None)


class _Near(NamedTuple):
    """A sentence near the question; the nearest orders first."""

    distance: float  # the negative cosine
    id: bytes
    vector: NDArray[np.int16]


def _asked(entity: EntityRows, question: Question) -> Collection[bytes]:
    """The ids of the live reviews that are asked."""
    return {
        name
        for name, facts in entity.review_facts()
        if not facts.deleted
        and question.asks(
            facts.details._replace(language=facts.details.language or facts.language or None)
        )
    }


def _nearest(
    entity: EntityRows,
    vector: NDArray[np.int16],
    asked: Collection[bytes] | None,
    limits: Answering | None,
) -> tuple[list[_Near], set[bytes]]:
    """The nearest sentences that are near enough, `MOST_READ` at most, and all reviews that speak
    of it.
    """
    found: list[_Near] = []
    about: set[bytes] = set()
    least, spoken = (-1.0, 2.0) if limits is None else (limits.near, limits.about)
    # a quantized vector's length is within a hundredth of SCALE
    fewest = (least - 0.01) * SCALE * float(np.linalg.norm(vector.astype(np.float64)))
    for block in entity.blocks():
        dots = np.einsum("ij,j->i", block.vectors, vector, dtype=np.int64)  # without large copies
        rows = np.flatnonzero(dots >= fewest)
        near = cosines(block.vectors[rows], vector[None])[:, 0]
        for row, cosine in zip(rows.tolist(), near.tolist(), strict=True):
            if cosine >= least and (asked is None or block.reviews[row] in asked):
                found.append(_Near(-cosine, block.id(row), block.vectors[row].copy()))
                if cosine >= spoken:
                    about.add(block.reviews[row])
        if len(found) > MOST_READ:
            found = nsmallest(MOST_READ, found, key=itemgetter(0, 1))
    return sorted(found, key=itemgetter(0, 1)), about


def _choose(
    entity: EntityRows,
    near: Sequence[_Near],
    count: int,
    is_answer: Callable[[float, str], bool],
) -> tuple[AnswerSentence, ...]:
    """The nearest sentences that answer, without near copies, templates and fragments."""
    chosen: list[AnswerSentence] = []
    kept = np.empty((0, entity.dimension), np.int16)
    for sentence in near:
        if len(chosen) == count:
            break
        if (cosines(kept, sentence.vector[None]) > SAME).any():
            continue
        text, details = entity.text_and_details(sentence.id)
        if not _stands_alone(text) or not is_answer(-sentence.distance, text):
            continue
        kept = np.vstack((kept, sentence.vector))
        name, review = sentence.id.decode(), review_of(sentence.id).decode()
        facts = text, details.rating, details.occurred_at, details.language
        chosen.append(AnswerSentence(len(chosen), name, review, *facts, -sentence.distance))
    return tuple(chosen)


def _stands_alone(text: str) -> bool:
    """False for templates, questions, and what is too short or too long to be read as an answer."""
    if has_template(text) or text.rstrip().endswith(("?", "？", "؟")):
        return False
    return FEWEST_WORDS <= len(words_of(text)) <= MOST_WORDS


@lru_cache(maxsize=2**14)
def stem(word: str) -> str:
    """The word without its ending, if three letters are left.

    >>> stem("beds"), stem("parking"), stem("host's"), stem("bus")
    ('bed', 'park', 'host', 'bus')
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def _weights(
    entity: EntityRows, question: str, asked: Collection[bytes] | None, sentences: int
) -> tuple[Mapping[str, int], RarestWord | None]:
    """How rare each stem of the question is among the asked sentences of all `sentences`, in
    thousandths of ln(1 + (N - n + 1/2) / (n + 1/2)), and its rarest word.
    """
    words = {stem(word): word for word in words_of(question) if word not in _NOT_ASKED}
    if not words:
        return {}, None
    counts: Counter[str] = Counter()
    reviews: Counter[str] = Counter()
    for texts in _having(entity, words, asked):
        having = [_stems_of(text, words) for text in texts]
        counts.update(word for found in having for word in found)
        reviews.update(set().union(*having))
    weights = {
        word: round(1000 * log(1 + (sentences - counts[word] + 0.5) / (counts[word] + 0.5)))
        for word in words
    }
    rarest = min(words, key=lambda word: (reviews[word], word))
    return weights, RarestWord(words[rarest], reviews[rarest])


def _stems_of(text: str, stems: Collection[str]) -> set[str]:
    """Those of the stems that words of the text have. A word begins with its stem."""
    if text.isascii() and not any(map(text.lower().__contains__, stems)):
        return set()
    begin = tuple(stems)
    return {stem(word) for word in words_of(text) if word.startswith(begin)}.intersection(stems)


def _having(
    entity: EntityRows, words: Collection[str], asked: Collection[bytes] | None
) -> Iterator[list[str]]:
    """The texts of each live review that is asked and may have a word with one of these stems.

    Rows without the bytes of a stem are not decoded.
    """
    begins = [word.partition("'")[0].encode() for word in words]
    is_ascii = b"".join(begins).isascii()
    signs = re.compile(b"|".join(map(re.escape, (*begins, *_BECOME_LETTERS))) if is_ascii else b"")
    start = len(entity.keys.reviews)
    long: list[bytes] = []
    for key, value in entity.rows.scan(entity.keys.reviews):
        if asked is not None and key[start:] not in asked:
            continue
        if text_chunks(value) > 1:
            long.append(key[start:])
        elif signs.search(value.lower()):
            row = decode_review(key, value)
            if not row.deleted:
                yield [text for _, text in row.texts]
    for name in long:  # a snapshot reads no other row during a scan
        review = entity.review(name)
        if review is not None and not review.deleted:
            yield [sentence.text for sentence in review.sentences]
