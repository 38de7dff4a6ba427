"""The facets of a deployment: a TOML file, or one of the presets that the worker brings."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from worker.errors import SetupError
from worker.events.fields import MAX_AUTHOR_BYTES, MAX_COUNTRY_BYTES, LanguageCode
from worker.events.outputs import SIDES, FacetSummary, Mentions
from worker.events.ratings import NO_RATINGS
from worker.facets import PRESETS
from worker.facets.toml_lines import line_of, near, parse_toml, positions
from worker.facets.words import Words

PRESET: Final = "preset:"
MAX_FACETS: Final = 64
MAX_VECTOR_BYTES: Final = 512 * 1024  # of all phrases together, in fixed point: they are one row
DEFAULT_THRESHOLD: Final = 0.4
REVIEW_CRITERIA: Final = (
    *("rating", "newest", "within_days", "language", "verified", "country", "author_id"),
)
"""The criteria that all sentences of a review meet, or none."""
CRITERIA: Final = ("phrases", "vectors", "labels", *REVIEW_CRITERIA)
"""The fields of which a facet has at least one: it takes the sentences that meet all of them."""
EVERYTHING: Final = "everything"
"""The name of the facet that takes all sentences of a language."""
EVERYTHING_K: Final = 20
_MAX_BYTES: Final = {"country": MAX_COUNTRY_BYTES, "author_id": MAX_AUTHOR_BYTES}
"""Longer values of a review are not passed on, so that a criterion would never meet one."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field (.*)", re.DOTALL)

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Phrase = Annotated[str, Meta(min_length=1, max_length=2000)]
Patterns = Annotated[tuple[Phrase, ...], Meta(min_length=1)]
Base64 = Annotated[str, Meta(min_length=1, max_length=2**17)]


class RatingRange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ratings from `min` to `max`, both included; a missing bound is no limit."""

    min: float | None = None
    max: float | None = None

    def has(self, rating: float) -> bool:
        """True if the rating is in the range."""
        return (self.min is None or rating >= self.min) and (self.max is None or rating <= self.max)


OPTIONAL_FIELDS: Final = frozenset(("language", "mentions", "pros", "cons"))
"""Fields of a published facet, absent where no facet uses them."""


class Polarity(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The definition of praise and complaints, for facets with `sides`.

    Attributes:
        good: complete sentences of praise.
        bad: complete sentences of complaint.
        good_vectors: embeddings in place of `good`, as `vectors` of a facet.
        bad_vectors: likewise of `bad`.
        margin: a product of more with the mean of the good less that of the bad is praise, of less
            than its negative a complaint.
        middle: ratings above it are good, others bad.
    """

    good: Annotated[tuple[Phrase, ...], Meta(min_length=1, max_length=100)] | None = None
    bad: Annotated[tuple[Phrase, ...], Meta(min_length=1, max_length=100)] | None = None
    good_vectors: Annotated[tuple[Base64, ...], Meta(min_length=1, max_length=100)] | None = None
    bad_vectors: Annotated[tuple[Base64, ...], Meta(min_length=1, max_length=100)] | None = None
    margin: Annotated[float, Meta(ge=0, le=2)] = 0.1
    middle: float = 3.0

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of good and bad phrases or vectors."""
        return len(self.good or self.good_vectors or ()), len(self.bad or self.bad_vectors or ())

    @property
    def facets(self) -> "tuple[Facet, Facet]":
        """Its phrases or vectors as if they were of facets, which are embedded likewise."""
        return (
            Facet("polarity", phrases=self.good, vectors=self.good_vectors),
            Facet("polarity", phrases=self.bad, vectors=self.bad_vectors),
        )


class Facet(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One `[[facet]]` of the file.

    It takes the sentences that meet all of its criteria.

    Attributes:
        name: unique among the facets.
        phrases: complete sentences; a sentence near one of them belongs to the facet.
        vectors: the same as embeddings, little-endian float32 in base64.
        threshold: lowest cosine to a phrase or vector.
        rating: of the sentence's review.
        labels: any of these, given with the sentence.
        newest: this many newest live reviews.
        within_days: reviews at most so many days older than the entity's newest.
        language: of the review, any of these.
        verified: whether the review is.
        country: of the review, any of these.
        author_id: of the review, any of these.
        words: a review mentions the facet if a sentence has one of these (`worker.facets.words`);
            in all languages, or by language. Unless `quotes` says so they exclude no sentence.
        quotes: with "words" it takes the quotable sentences (`worker.facets.quotable`) that have
            one of its words and are near one of its phrases. Other facets may have them too.
        k: sentences of a full set.
        hidden: the facet takes sentences from the others and is not published.
        sides: its praise and its complaints are published as two more sets of so many sentences;
            True: of `k`.
    """

    name: Name
    phrases: Annotated[tuple[Phrase, ...], Meta(min_length=1)] | None = None
    vectors: Annotated[tuple[Base64, ...], Meta(min_length=1)] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    rating: RatingRange | None = None
    labels: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    newest: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    within_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None
    language: Annotated[tuple[LanguageCode, ...], Meta(min_length=1)] | None = None
    verified: bool | None = None
    country: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    author_id: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    words: Patterns | Annotated[dict[LanguageCode, Patterns], Meta(min_length=1)] | None = None
    quotes: Literal["phrases", "words"] = "phrases"
    k: Annotated[int, Meta(ge=1, le=100)] = 3
    hidden: bool = False
    sides: bool | Annotated[int, Meta(ge=1, le=100)] = False

    @property
    def is_exclusive(self) -> bool:
        """True if it has phrases or vectors: it shares no sentence with others of its `rivals`,
        unless it quotes words.
        """
        return self.phrases is not None or self.vectors is not None

    @property
    def quotes_words(self) -> bool:
        """True if all of its sentences are quotable and have one of its words."""
        return self.quotes == "words"

    @property
    def rivals(self) -> "Facet":
        """Equal for facets whose phrases exclude one another: those of the same other criteria,
        unless they quote words.
        """
        others = replace(self, phrases=None, vectors=None, threshold=None, words=None)
        return replace(others, name="", k=1, hidden=False, sides=False)

    @property
    def side_k(self) -> int:
        """Sentences of a full set of its praise, or of its complaints; 0 without sides."""
        return self.k if self.sides is True else int(self.sides)

    def size(self, sign: int) -> int:
        """Sentences of a full set: of its praise (1), of its complaints (-1), or of all (0)."""
        return self.side_k if sign else self.k

    @property
    def shown(self) -> int:
        """Sentences of all its full sets."""
        return self.k + 2 * self.side_k

    @property
    def only_language(self) -> str | None:
        """The language of all its reviews, None if it may have several."""
        return self.language[0] if self.language is not None and len(self.language) == 1 else None


class Document(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole file, as it is stored.

    Attributes:
        facet: as defined.
        languages: each facet exists once for each of these, beside one of all its sentences.
        polarity: of facets with sides.
        hide_names: facets that quote words quote no sentence with the name of a person
            (`worker.facets.quotable.has_personal_name`).
    """

    facet: Annotated[tuple[Facet, ...], Meta(min_length=1, max_length=MAX_FACETS)]
    languages: Annotated[tuple[LanguageCode, ...], Meta(min_length=1)] | None = None
    polarity: Polarity | None = None
    hide_names: bool = False


class Definitions:
    """The facets of a deployment in the order of their file.

    `defined` are those of the file. `facets` are those of the entity: the same, or those of each
    language. `origin` has by facet the number of its definition, None if it takes everything.
    `identity` stands for them in the fingerprint: other definitions make other sets.
    """

    def __init__(
        self,
        defined: Sequence[Facet],
        languages: Sequence[str] = (),
        polarity: Polarity | None = None,
        *,
        hide_names: bool = False,
    ) -> None:
        self.defined = tuple(defined)
        self.languages = tuple(languages)
        self.polarity = polarity
        self.hide_names = hide_names
        self.identity = blake2b(self.to_json(), digest_size=16).hexdigest()
        made = list(_by_language(self.defined, self.languages) if languages else enumerate(defined))
        self.origin = tuple(number for number, _ in made)
        self.facets = tuple(facet for _, facet in made)

    def to_json(self) -> bytes:
        """The definitions as they are stored: mostly the facets alone."""
        document = Document(self.defined, self.languages or None, self.polarity, self.hide_names)
        if document == Document(self.defined):
            return msgspec.json.encode(self.defined)
        return msgspec.json.encode(document)

    @classmethod
    def from_json(cls, stored: bytes) -> "Definitions":
        """Inverse of `to_json`. Raises msgspec.DecodeError."""
        if stored.startswith(b"["):
            return cls(_decode_facets(stored))
        document = _decode_document(stored)
        return cls(
            document.facet,
            document.languages or (),
            document.polarity,
            hide_names=document.hide_names,
        )

    def _with(self, defined: Sequence[Facet]) -> "Definitions":
        """The same with other facets."""
        return Definitions(defined, self.languages, self.polarity, hide_names=self.hide_names)

    def with_threshold(self, threshold: float | None) -> "Definitions":
        """The same with this threshold where a facet of phrases or vectors gives none; None: with
        DEFAULT_THRESHOLD, and the same identity.
        """
        if threshold is None or threshold == DEFAULT_THRESHOLD:
            return self
        return self._with(
            [
                replace(facet, threshold=threshold)
                if facet.is_exclusive and facet.threshold is None
                else facet
                for facet in self.defined
            ]
        )

    def with_language(self, languages: Sequence[str] | None) -> "Definitions":
        """The same with the list of a model's only language as the first one of each facet: it
        counts where a review's language is not known. Other facets have the same identity.
        """
        if languages is None or len(languages) != 1:
            return self
        defined = [
            replace(facet, words={code: facet.words[code]} | facet.words)
            if isinstance(facet.words, dict) and (code := languages[0]) in facet.words
            else facet
            for facet in self.defined
        ]
        return self._with(defined)

    @cached_property
    def visible(self) -> tuple[int, ...]:
        """Positions of the facets that are published."""
        return tuple(i for i, facet in enumerate(self.facets) if not facet.hidden)

    @cached_property
    def sided(self) -> tuple[int, ...]:
        """Positions of those that are published with their pros and cons."""
        return tuple(i for i in self.visible if self.facets[i].sides)

    @cached_property
    def sets(self) -> tuple[tuple[int, int], ...]:
        """The published sets in the order of their row: the position of the facet, and 1 for its
        pros, -1 for its cons, 0 for all of its sentences.
        """
        sides = [(number, sign) for number in self.sided for sign in SIDES.values()]
        return (*[(number, 0) for number in self.visible], *sides)

    @cached_property
    def summaries(self) -> tuple[FacetSummary, ...]:
        """The facets without sentences, as they are published; all entities share them."""
        return tuple(map(self._summary, self.facets))

    def _summary(self, facet: Facet) -> FacetSummary:
        ratings = NO_RATINGS.ratings()
        summary = FacetSummary(facet.name, facet.k, 0, 0, ratings, [])
        if self.named_languages:
            summary = replace(summary, language=facet.only_language)
        if facet.words is not None:
            summary = replace(summary, mentions=Mentions(0, ratings))
        return replace(summary, pros=[], cons=[]) if facet.sides else summary

    @property
    def unused(self) -> frozenset[str]:
        """The fields of a published facet that no facet of these definitions has."""
        used = {
            "language": self.named_languages,
            "mentions": any(self.facets[number].words is not None for number in self.visible),
            "pros": self.sided,
            "cons": self.sided,
        }
        return frozenset(name for name in OPTIONAL_FIELDS if not used[name])

    @cached_property
    def named_languages(self) -> frozenset[str]:
        """All that the definitions name; without any the language of a review is not looked for."""
        named = [code for facet in self.defined for code in facet.language or ()]
        return frozenset([*self.languages, *named])


_decode_facets = msgspec.json.Decoder(list[Facet]).decode
_decode_document = msgspec.json.Decoder(Document).decode


def _by_language(
    defined: Sequence[Facet], languages: Sequence[str]
) -> Iterator[tuple[int | None, Facet]]:
    """The facets of each language, each with the number of its definition."""
    for code in languages:
        yield None, Facet(EVERYTHING, language=(code,), k=EVERYTHING_K)
        for number, facet in enumerate(defined):
            if facet.language is None or code in facet.language:
                yield number, replace(facet, language=(code,))


def read_definitions(setting: str) -> Definitions:
    """The definitions that COVERSUMM_FACETS names: a file, or `preset:NAME`.

    Raises SetupError with one line that says where the error is and what is expected.
    """
    if setting.startswith(PRESET):
        name = setting.removeprefix(PRESET)
        if name not in PRESETS:
            raise SetupError(
                f"COVERSUMM_FACETS: no preset {name!r}: one of {', '.join(PRESETS)}"
                f"{near(name, PRESETS)}"
            )
        return parse_definitions(preset(name), setting)
    path = Path(setting).expanduser()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SetupError(f"COVERSUMM_FACETS: {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"COVERSUMM_FACETS: {path}: not UTF-8 (byte {error.start})") from error
    return parse_definitions(text, path.name)


def preset(name: str) -> str:
    """The text of a preset, one of PRESETS, to begin a file of one's own with."""
    return (files("worker.facets") / "presets" / f"{name}.toml").read_text()


def parse_definitions(text: str, source: str) -> Definitions:
    """The definitions in `text`; `source` names it in errors. Raises SetupError."""
    try:
        document = parse_toml(text)
        facets, languages = list(_facets(document, text)), _languages(document)
        polarity, hide_names = _polarity(document), _hides_names(document, facets)
        definitions = Definitions(facets, languages, polarity, hide_names=hide_names)
        _check_together(definitions)
    except ValueError as error:
        raise SetupError(f"COVERSUMM_FACETS: {source}: {error}") from None
    return definitions


def _languages(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The languages of the file. Raises ValueError."""
    try:
        languages = msgspec.convert(
            document.get("languages", ()), tuple[LanguageCode, ...], strict=True
        )
    except msgspec.ValidationError as error:
        raise ValueError(f"languages: {_plain(str(error))}") from None
    if "languages" in document and not languages:
        raise ValueError("languages: give at least one, or leave the field out")
    if len(set(languages)) < len(languages):
        raise ValueError("languages: one is given twice")
    return languages


def _hides_names(document: Mapping[str, Any], facets: Sequence[Facet]) -> bool:
    """Whether the file hides the names of persons. Raises ValueError."""
    hides = document.get("hide_names", False)
    if not isinstance(hides, bool):
        raise ValueError(f"hide_names: {hides!r} is not true or false")
    if hides and not any(facet.quotes_words for facet in facets):
        raise ValueError('hide_names: no facet has quotes = "words": no other hides names')
    return hides


def _polarity(document: Mapping[str, Any]) -> Polarity | None:
    """The polarity of the file. Raises ValueError."""
    if "polarity" not in document:
        return None
    try:
        polarity = msgspec.convert(document["polarity"], Polarity)
    except msgspec.ValidationError as error:
        raise ValueError(f"polarity: {_plain(str(error), Polarity)}") from None
    for side in ("good", "bad"):
        given = getattr(polarity, side), getattr(polarity, f"{side}_vectors")
        if (given[0] is None) == (given[1] is None):
            raise ValueError(f"polarity: give {side}, complete sentences, or {side}_vectors")
    if not isfinite(polarity.middle):
        raise ValueError(f"polarity: middle: {polarity.middle} is not a rating")
    return polarity


def _check_together(definitions: Definitions) -> None:
    """The conditions on all facets together. Raises ValueError."""
    facets, languages = definitions.facets, definitions.languages
    if len(facets) > MAX_FACETS:
        each = f" in {len(languages)} languages" if languages else ""
        raise ValueError(f"{len(facets)} facets{each}, at most {MAX_FACETS} are allowed")
    if all(facet.hidden for facet in facets):
        raise ValueError("every facet is hidden: nothing would be published")
    if languages and any(facet.name == EVERYTHING for facet in definitions.defined):
        raise ValueError(f"facet {EVERYTHING!r}: with languages another facet has this name")
    labels = [summary.label for summary in definitions.summaries]
    if len(set(labels)) < len(labels):
        raise ValueError(f"facet {max(labels, key=labels.count)!r}: two are published by this name")
    if definitions.sided and definitions.polarity is None:
        name = definitions.facets[definitions.sided[0]].name
        raise ValueError(f"facet {name!r}: sides need polarity = {{ good = [...], bad = [...] }}")
    for facet in definitions.defined if languages else ():
        if others := sorted(set(facet.language or ()) - set(languages)):
            raise ValueError(f"facet {facet.name!r}: language: {others[0]!r} is not in languages")


def _facets(document: Mapping[str, Any], text: str) -> Iterator[Facet]:
    """The checked facets. Raises ValueError."""
    known = {name: name for name in Document.__struct_fields__} | {"facet": "[[facet]]"}
    if unknown := sorted(document.keys() - known.keys()):
        raise ValueError(
            f"unknown field {unknown[0]!r}: only {', '.join(known.values())} are expected"
            f"{near(unknown[0], known)}"
        )
    bodies = document.get("facet")
    if not isinstance(bodies, list) or not bodies:
        raise ValueError("no [[facet]]: at least one is needed")
    names: set[str] = set()
    for number, body in enumerate(bodies):
        try:
            facet = msgspec.convert(body, Facet)
            _check(facet, names)
        except (msgspec.ValidationError, ValueError) as error:
            name = body.get("name", "") if isinstance(body, dict) else ""
            which = f"facet {name!r}" if name else f"facet {number + 1}"
            line = line_of(positions(text), ("facet", number))
            raise ValueError(f"line {line}: {which}: {_plain(str(error))}") from None
        names.add(facet.name)
        yield facet


def _check(facet: Facet, names: set[str]) -> None:
    """The conditions that types cannot express. Raises ValueError."""
    if all(getattr(facet, name) is None for name in CRITERIA):
        raise ValueError(
            f"says nothing about its sentences: give at least one of {', '.join(CRITERIA)}"
        )
    if facet.phrases is not None and facet.vectors is not None:
        raise ValueError("has phrases and vectors: give one of them")
    if facet.name in names:
        raise ValueError("another facet has the same name")
    if facet.threshold is not None and not facet.is_exclusive:
        raise ValueError("threshold: only for phrases or vectors")
    if facet.sides and facet.hidden:
        raise ValueError("sides: a hidden facet is not published")
    if facet.quotes_words and (facet.words is None or facet.hidden):
        raise ValueError('quotes: "words" is only for a facet with words that is published')
    if facet.rating is not None:
        low, high = facet.rating.min, facet.rating.max
        if low is None and high is None:
            raise ValueError("rating: give min, max or both")
        if infinite := [
            bound for bound in (low, high) if bound is not None and not isfinite(bound)
        ]:
            raise ValueError(f"rating: {infinite[0]} is not a bound: leave it out")
        if low is not None and high is not None and not low <= high:
            raise ValueError(f"rating: min {low} is above max {high}")
    try:
        Words([facet.words])
    except ValueError as error:
        raise ValueError(f"words: {error}") from None
    for name in ("phrases", "vectors", "labels", "language", "country", "author_id"):
        given = getattr(facet, name) or ()
        if blank := [pattern for pattern in given if not pattern.strip()]:
            raise ValueError(f"{name}: {blank[0]!r} is blank")
        if len(set(given)) < len(given):
            raise ValueError(f"{name}: one is given twice")
        most = _MAX_BYTES.get(name)
        if most and (long := [text for text in given if len(msgspec.json.encode(text)) - 2 > most]):
            raise ValueError(
                f"{name}: {long[0][:40]!r}... has more than {most} bytes of JSON: no review has it"
            )


def _plain(message: str, whole: type[Struct] = Facet) -> str:
    """msgspec's message with the field first."""
    text, _, path = message.replace("`", "").partition(" - at ")
    if unknown := _UNKNOWN.fullmatch(text):
        kind = RatingRange if path else whole
        text += near(unknown[1], kind.__struct_fields__)
    field = path.removeprefix("key in ").removeprefix("$").removeprefix(".")
    return f"{field}: {text}" if field else text


def given_vectors(facet: Facet, dimension: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(m, dimension) float32, the facet's `vectors`. Raises SetupError."""
    rows = []
    for number, text in enumerate(facet.vectors or ()):
        try:
            row = np.frombuffer(b64decode(text, validate=True), dtype="<f4")
        except ValueError:
            row = np.empty(0, "<f4")
        if len(row) != dimension or not np.isfinite(row).all() or not row.any():
            raise SetupError(
                f"COVERSUMM_FACETS: facet {facet.name!r}: vectors[{number}]: not {dimension} "
                "float32 numbers in base64, finite and not all zero"
            )
        rows.append(row)
    return np.array(rows, np.float32)
