"""The facets of a deployment: a TOML file, or one of the presets that the worker brings."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from worker.errors import SetupError
from worker.facets import PRESETS
from worker.toml_lines import line_of, near, parse_toml, positions

PRESET: Final = "preset:"
MAX_FACETS: Final = 64
MAX_VECTOR_BYTES: Final = 512 * 1024  # of all phrases together, in fixed point: they are one row
DEFAULT_THRESHOLD: Final = 0.4
KINDS: Final = ("phrases", "vectors", "rating", "labels", "newest")
"""The fields of which a facet has exactly one."""
_UNKNOWN: Final = re.compile(r"Object contains unknown field (.*)", re.DOTALL)

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Phrase = Annotated[str, Meta(min_length=1, max_length=2000)]
Base64 = Annotated[str, Meta(min_length=1, max_length=2**17)]


class RatingRange(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Ratings from `min` to `max`, both included; a missing bound is no limit."""

    min: float | None = None
    max: float | None = None

    def has(self, rating: float) -> bool:
        """Whether the rating is in the range."""
        return (self.min is None or rating >= self.min) and (self.max is None or rating <= self.max)


class Facet(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One `[[facet]]` of the file.

    Attributes:
        name: unique among the facets.
        phrases: complete sentences; a sentence near one of them belongs to the facet.
        vectors: the same as embeddings, little-endian float32 in base64.
        threshold: lowest cosine to a phrase or vector.
        rating: of the sentence's review.
        labels: any of these, given with the sentence.
        newest: this many newest live reviews.
        k: sentences of a full set.
        hidden: the facet takes sentences from the others and is not published.
    """

    name: Name
    phrases: Annotated[tuple[Phrase, ...], Meta(min_length=1)] | None = None
    vectors: Annotated[tuple[Base64, ...], Meta(min_length=1)] | None = None
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    rating: RatingRange | None = None
    labels: Annotated[tuple[Name, ...], Meta(min_length=1)] | None = None
    newest: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    k: Annotated[int, Meta(ge=1, le=100)] = 3
    hidden: bool = False

    @property
    def is_exclusive(self) -> bool:
        """Whether the facet shares no sentence with another of this kind."""
        return self.phrases is not None or self.vectors is not None


class Definitions:
    """The facets of a deployment in the order of their file.

    `identity` stands for them in the fingerprint: other definitions make other sets.
    """

    def __init__(self, facets: Sequence[Facet]) -> None:
        self.facets = tuple(facets)
        self.identity = blake2b(self.to_json(), digest_size=16).hexdigest()

    def to_json(self) -> bytes:
        """The definitions as they are stored."""
        return msgspec.json.encode(self.facets)

    @classmethod
    def from_json(cls, stored: bytes) -> "Definitions":
        """Inverse of `to_json`. Raises msgspec.DecodeError."""
        return cls(_decode_facets(stored))

    def with_threshold(self, threshold: float | None) -> "Definitions":
        """The same with this threshold where a facet of phrases or vectors gives none; None: with
        DEFAULT_THRESHOLD, and the same identity.
        """
        if threshold is None or threshold == DEFAULT_THRESHOLD:
            return self
        return Definitions(
            [
                replace(facet, threshold=threshold)
                if facet.is_exclusive and facet.threshold is None
                else facet
                for facet in self.facets
            ]
        )

    @property
    def visible(self) -> tuple[int, ...]:
        """Positions of the facets that are published."""
        return tuple(i for i, facet in enumerate(self.facets) if not facet.hidden)


_decode_facets = msgspec.json.Decoder(list[Facet]).decode


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
        return Definitions(list(_facets(parse_toml(text), text)))
    except ValueError as error:
        raise SetupError(f"COVERSUMM_FACETS: {source}: {error}") from None


def _facets(document: Mapping[str, Any], text: str) -> Iterator[Facet]:
    """The checked facets. Raises ValueError."""
    if unknown := sorted(document.keys() - {"facet"}):
        raise ValueError(
            f"unknown field {unknown[0]!r}: only [[facet]] is expected{near(unknown[0], ['facet'])}"
        )
    bodies = document.get("facet")
    if not isinstance(bodies, list) or not bodies:
        raise ValueError("no [[facet]]: at least one is needed")
    if len(bodies) > MAX_FACETS:
        raise ValueError(f"{len(bodies)} facets, at most {MAX_FACETS} are allowed")
    names: set[str] = set()
    hidden = 0
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
        hidden += facet.hidden
        yield facet
    if hidden == len(bodies):
        raise ValueError("every facet is hidden: nothing would be published")


def _check(facet: Facet, names: set[str]) -> None:
    """The conditions that types cannot express. Raises ValueError."""
    kinds = [kind for kind in KINDS if getattr(facet, kind) is not None]
    if len(kinds) != 1:
        found = f"has {' and '.join(kinds)}" if kinds else "says nothing about its sentences"
        raise ValueError(f"{found}: give exactly one of {', '.join(KINDS)}")
    if facet.name in names:
        raise ValueError("another facet has the same name")
    if facet.threshold is not None and not facet.is_exclusive:
        raise ValueError("threshold: only for phrases or vectors")
    if facet.rating is not None:
        low, high = facet.rating.min, facet.rating.max
        if low is None and high is None:
            raise ValueError("rating: give min, max or both")
        if infinite := [one for one in (low, high) if one is not None and not isfinite(one)]:
            raise ValueError(f"rating: {infinite[0]} is not a bound: leave it out")
        if low is not None and high is not None and not low <= high:
            raise ValueError(f"rating: min {low} is above max {high}")
    for kind in ("phrases", "vectors", "labels"):
        given = getattr(facet, kind) or ()
        if blank := [one for one in given if not one.strip()]:
            raise ValueError(f"{kind}: {blank[0]!r} is blank")
        if len(set(given)) < len(given):
            raise ValueError(f"{kind}: one is given twice")


def _plain(message: str) -> str:
    """msgspec's message with the field first."""
    text, _, path = message.replace("`", "").partition(" - at ")
    if unknown := _UNKNOWN.fullmatch(text):
        kind = RatingRange if path else Facet
        text += near(unknown[1], kind.__struct_fields__)
    field = path.removeprefix("$").removeprefix(".")
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
