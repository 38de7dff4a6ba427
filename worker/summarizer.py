"""Summaries of reviews without Kafka, in memory, for a notebook or a program."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from worker.events import FacetsChanged, Reason, Record, Rejected, SummaryChanged, decode
from worker.events.bare import FIELDS, read_json
from worker.events.outputs import decode_facets
from worker.processing.ask import Answer, Vector, asking, question_of
from worker.processing.config import processor_config
from worker.processing.entity_view import (
    THRESHOLD,
    Extent,
    FacetsView,
    Overview,
    Reads,
    ShortView,
    SummaryView,
    V,
)
from worker.processing.in_memory import PARTITION, ProcessorInMemory, Refusal
from worker.processing.trend import Trend, TrendView
from worker.settings import MAX_MESSAGE_BYTES, Settings
from worker.text.embedders import load_engine
from worker.text.engine import EmbeddingEngine

BLOCK = 200  # reviews embedded together; an interrupted call has processed complete blocks


class ReviewError(ValueError):
    """Some reviews cannot be used. The message names the first one and what is wrong."""


class Skipped(NamedTuple):
    """A review that was left out: its position in the input of `add`, from 0, and the reason."""

    position: int
    reason: str
    detail: str


class Summarizer:
    """The summaries of any number of entities, in memory and exact after every review.

    The same reviews give the same summaries as in the worker and in `coversumm-worker summarize`.
    No variable of the environment is read. Not for several threads at once.

    >>> stays = Summarizer(k=2)
    >>> changes = stays.add([
    ...     {"entity_id": "hut", "review_id": "r1", "text": "Very quiet place. The host was kind."},
    ...     {"entity_id": "hut", "review_id": "r2", "rating": 4,
    ...      "text": "A quiet, peaceful place. No parking!"},
    ... ])
    >>> [change.added for change in changes]
    [['r1#0', 'r1#1'], ['r2#0']]
    >>> for sentence in stays.summary("hut").sentences:
    ...     print(sentence.rank, sentence.text)
    0 Very quiet place.
    1 A quiet, peaceful place.
    >>> [change.removed for change in stays.remove("hut", "r2")]
    [['r2#0']]
    """

    def __init__(
        self,
        k: int,
        *,
        distinct: bool = False,
        weigh: str = "reviews",
        embedder: str | EmbeddingEngine = "onnx",
        dimension: int | None = None,
        threads: int | None = None,
        cache_dir: Path | None = None,
        facets: str | Path | None = None,
    ) -> None:
        """Loads the embedder.

        Args:
            k: sentences of a full summary.
            distinct: show sentences with identical vectors once.
            weigh: with `texts` they also count once, as with COVERSUMM_WEIGH.
            embedder: a value of COVERSUMM_EMBEDDER, or an engine of your own.
            dimension: of the reviews' embeddings, only for the embedder `none`.
            threads: for embedding; by default one per core.
            cache_dir: for models of the hub; by default that of Hugging Face.
            facets: a value of COVERSUMM_FACETS, such as `preset:stays` or a TOML file.

        Raises:
            EngineError: the embedder cannot be loaded; the message says in one line what to do.
            SetupError: the facets cannot be used; the message says why.
            ValueError: `k` or `dimension` is out of range, or `weigh` is another word.
        """
        engine = (
            load_engine(embedder, threads=threads, cache_dir=cache_dir)
            if isinstance(embedder, str)
            else embedder
        )
        settings = _settings(k, dimension, distinct=distinct, embeds=engine is not None)
        if weigh not in ("reviews", "texts"):
            raise ValueError(f"weigh is reviews or texts, not {weigh!r}")
        settings = replace(settings, weigh=weigh, facets="" if facets is None else str(facets))
        self.skipped: list[Skipped] = []  # left out by `add`, in order
        self.facet_changes: list[FacetsChanged] = []  # of the last `add` or `remove`, in order
        self._config = processor_config(settings, 1, engine)
        self._processor = ProcessorInMemory(self._config, engine)
        self._next = 0  # offset of the next review
        self._entities: dict[str, None] = {}

    def add(
        self, reviews: Iterable[Mapping[str, object]], *, skip_bad: bool = False
    ) -> list[SummaryChanged]:
        """Add reviews in order; returns each change of a summary, as the worker publishes it.
        Changes of facets are in `facet_changes` until the next call.

        A review has `entity_id`, `review_id` and `text`, and may have `rating`, `language`,
        `occurred_at`, `verified`, `country` and `author_id`; it replaces an earlier one with the
        same ids. Instead of `text` it may have `sentences`, each a string or
        `{"text": ..., "embedding": ...}`. Ids may be numbers, and dates need not be RFC 3339; a
        date, a rating and one of the last three without a sure meaning are left out with a warning.
        An item with a `type` is an event of the contract in `schemas/`, deletions included.

        With `skip_bad` reviews that cannot be used are left out and listed in `skipped`. Otherwise
        ReviewError is raised before any is added, except for an entity that is full and a sentence
        for which the engine has no vector: then all others are added.
        """
        first = self._next
        records, bad = self._records(reviews)
        given = len(records) + len(bad)
        if not skip_bad:
            bad += self._refused(records)
            if bad:
                raise _error(bad, given)
        self._next = first + given
        self._entities |= dict.fromkeys(
            record.key.decode() for record in records if record.key is not None
        )
        changes: list[SummaryChanged] = []
        self.facet_changes = []
        for start in range(0, len(records), BLOCK):
            for batch in self._processor.process(records[start : start + BLOCK]):
                for message in batch.messages:
                    if message.topic not in (self._config.output_topic, self._config.facets_topic):
                        offset, reason, detail = Refusal.of(message)
                        bad.append(Skipped(offset - first, reason, detail))
                    elif message.value is None:
                        continue
                    elif message.topic == self._config.facets_topic:
                        self.facet_changes.append(decode_facets(message.value))
                    else:
                        changes.append(msgspec.json.decode(message.value, type=SummaryChanged))
        if bad and not skip_bad:
            raise _error(bad, given)
        self.skipped += sorted(bad)
        return changes

    def remove(self, entity_id: str, review_id: str) -> list[SummaryChanged]:
        """Remove a review; the change of the summary, if any. An unknown one changes nothing."""
        return self.add(
            [{"type": "review.deleted", "entity_id": entity_id, "review_id": review_id}]
        )

    def summary(self, entity_id: str) -> SummaryView:
        """An entity's summary now: `sentences` by rank, and counts. KeyError if it is unknown."""
        return self._view(entity_id, SummaryView)

    def short_view(
        self,
        entity_id: str,
        *,
        sentences: int | None = None,
        words: int | None = None,
        threshold: float = THRESHOLD,
    ) -> ShortView:
        """An entity's short view now: the nearest `sentences`, without near-copies.

        Args:
            entity_id: of which entity.
            sentences: at most this many, by default 10; with `words` as many as fit.
            words: at most this many in all; a sentence that does not fit is skipped.
            threshold: a sentence whose cosine to an earlier one is above this is skipped.

        Raises:
            KeyError: the entity is unknown.
            ValueError: an argument is out of range.
        """
        return self._view(entity_id, ShortView, Extent(sentences, words, threshold))

    def facets(self, entity_id: str, *, language: str | None = None) -> FacetsView:
        """An entity's facets now, by descending sentence count; with a `language` those of it.

        Raises KeyError for an unknown entity, NoFacets without `facets`, UnknownLanguage.
        """
        return self._view(entity_id, FacetsView, Extent(language=language))

    def overview(
        self,
        entity_id: str,
        *,
        sentences: int | None = None,
        words: int | None = None,
        threshold: float = THRESHOLD,
        language: str | None = None,
    ) -> Overview:
        """An entity's overview now: the nearest sentence of each facet, then the next round.

        Of facets with languages it is of one: `language`, by default that of the most sentences.
        The other arguments and errors are those of `short_view`; raises NoFacets without `facets`,
        UnknownLanguage.
        """
        return self._view(entity_id, Overview, Extent(sentences, words, threshold, language))

    def ask(
        self, entity_id: str, question: str, *, vector: Vector | None = None, **reviews: str
    ) -> Answer:
        """The sentences of an entity that answer a question, and whether any does.

        Args:
            entity_id: of which entity.
            question: in the reader's words.
            vector: its embedding (D,), for the embedder `none`.
            **reviews: which are asked, and how many sentences are wanted, as in the address of
                HTTP: `rating_max="3"`, `language="en"`, `since="2026-01-01"`, `sentences="9"`.

        Raises KeyError for an unknown entity, ValueError for an argument out of range.
        """
        asked = question_of(question, reviews)
        return self._view(entity_id, asking(asked, self._processor.engine, vector))

    def trend(self, entity_id: str, *, by: str = "month") -> TrendView:
        """The mentions of each facet `by` month or quarter, and whether complaints rose.

        Raises KeyError for an unknown entity, NoFacets without `facets`, ValueError.
        """
        return self._view(entity_id, Trend(by))

    def entities(self) -> list[str]:
        """The ids of all known entities, in order of their first review."""
        return [name for name in self._entities if self._processor.knows(name)]

    def _view(self, entity_id: str, kind: Reads[V], extent: Extent | None = None) -> V:
        view = self._processor.view(entity_id, kind, extent)
        if view is None:
            raise KeyError(f"nothing is known of {entity_id!r}")
        return view

    def _records(
        self, reviews: Iterable[Mapping[str, object]]
    ) -> tuple[list[Record], list[Skipped]]:
        """The reviews as records, and those that JSON cannot express. Warns of unsure values."""
        records: list[Record] = []
        bad: list[Skipped] = []
        left_out: list[tuple[int, str, object]] = []
        for position, review in enumerate(reviews):
            if not isinstance(review, Mapping):
                raise TypeError(
                    f"a list of mappings is wanted, and review {position} is {review!r:.80}"
                )
            if _is_infinite(review.get("rating")):  # JSON would have null in its place
                bad.append(Skipped(position, Reason.BAD_FIELD, "rating: Number out of range"))
                continue
            try:
                reading = read_json(msgspec.json.encode(dict(review), enc_hook=_plain))
            except (TypeError, ValueError, OverflowError) as error:
                bad.append(Skipped(position, Reason.BAD_JSON, str(error)))
            else:
                records.append(
                    Record(
                        self._config.input_topic,
                        PARTITION,
                        self._next + position,
                        -1,
                        *reading.line,
                    )
                )
                left_out += [
                    (position, name, value)
                    for name, value in reading.left_out.items()
                    if name in FIELDS and name != "text"
                ]
        if left_out:
            position, name, value = left_out[0]
            warnings.warn(
                f"review {position}: {name} {value!r:.80} has no sure meaning and is left out, "
                f"one of {len(left_out)} such values",
                stacklevel=3,
            )
        return records, bad

    def _refused(self, records: Sequence[Record]) -> list[Skipped]:
        """The records without a valid event."""
        checked = zip(records, decode(records, self._config.limits), strict=True)
        return [
            Skipped(record.offset - self._next, event.reason, event.detail)
            for record, event in checked
            if isinstance(event, Rejected)
        ]


def _settings(k: int, dimension: int | None, *, distinct: bool, embeds: bool) -> Settings:
    """The worker's defaults with these values. Raises ValueError."""
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    settings = Settings(
        k=k,
        distinct=distinct,
        embedder="onnx" if embeds else "none",
        max_message_bytes=MAX_MESSAGE_BYTES,
    )
    if dimension is None:
        return settings
    if embeds or dimension < 1:
        raise ValueError(
            f"dimension {dimension}: it is for the embedder `none` alone (an engine brings its "
            "own), and at least 1"
        )
    return replace(settings, dimension=dimension)


def _plain(value: object) -> Any:
    """NumPy's arrays and numbers as Python's, for JSON."""
    plain = getattr(value, "tolist", None)
    if plain is None:
        raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
    return plain()


def _is_infinite(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isinf(value))


def _error(bad: Sequence[Skipped], given: int) -> ReviewError:
    position, reason, detail = min(bad)
    others = (
        f" ({len(bad)} of {given} reviews cannot be used; skip_bad=True leaves them out)"
        if given > 1
        else ""
    )
    return ReviewError(f"review {position}: {reason}: {detail}{others}")
