"""A run of `facets suggest`: the live reviews of files, and the facets that they suggest."""

import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from worker.errors import SetupError
from worker.events import (
    Event,
    Ignored,
    Limits,
    Rejected,
    ReviewDeleted,
    ReviewUpserted,
    SentencesDeleted,
    decode,
)
from worker.facets.suggest import ReviewTexts, definitions_file, suggest
from worker.operations.findings import Findings, warn_left_out
from worker.processing.config import configured_engine, event_limits
from worker.processing.plan import split_review
from worker.settings import Settings
from worker.sources import Faulty, ReviewFiles
from worker.state.keys import review_of
from worker.text.engine import EmbeddingEngine
from worker.view import output

EMBEDDED = 512  # texts embedded between two updates of the progress


@dataclass
class LiveReviews:
    """The reviews that events leave, in the order of the events: of two upserts of a review the
    later one counts.
    """

    limits: Limits
    _entities: dict[str, dict[bytes, tuple[float | None, dict[bytes, str]]]] = field(
        default_factory=dict
    )
    """Ratings and texts by sentence id, by entity and review."""

    def apply(self, event: Event) -> Rejected | None:
        """The event's effect, or why it has none."""
        reviews = self._entities.setdefault(event.entity_id, {})
        if isinstance(event, ReviewUpserted):
            review_id = event.review_id.encode()
            found = split_review(review_id, event, self.limits)
            if isinstance(found, Rejected):
                return found
            texts = {sentence.id: sentence.text for sentence in found[0]}
            reviews[review_id] = event.details.rating, texts
        elif isinstance(event, ReviewDeleted):
            reviews.pop(event.review_id.encode(), None)
        elif isinstance(event, SentencesDeleted):
            for sentence_id in map(str.encode, event.sentence_ids):
                reviews.get(review_of(sentence_id), (None, {}))[1].pop(sentence_id, None)
        else:
            del self._entities[event.entity_id]
        return None

    def reviews(self) -> list[ReviewTexts]:
        """All of them, by entity."""
        return [
            ReviewTexts(entity, rating, list(texts.values()))
            for entity, reviews in self._entities.items()
            for rating, texts in reviews.values()
        ]


class SuggestRun:
    """The files from their first line to the suggestions. Construction raises SetupError without an
    embedder.
    """

    def __init__(self, reviews: ReviewFiles, settings: Settings) -> None:
        engine = configured_engine(settings)
        if engine is None:
            raise SetupError(
                "facets are suggested with phrases, which need an embedder, and COVERSUMM_EMBEDDER "
                "is none: pass --embedder"
            )
        self._engine: EmbeddingEngine = engine
        self._reviews = reviews
        limits = event_limits(settings)
        self._limits = replace(limits, dimension=engine.dimension, model=engine.model)
        self._findings = Findings(reviews)
        self._started = time.monotonic()

    def suggest(self, facets: int) -> str:
        """The file with at most so many suggestions. Raises SetupError if there is none."""
        reviews = self._read()
        suggestions = suggest(reviews, self._embedded, facets)
        of = output.many(len(reviews), "reviews")
        if not suggestions:
            self.finish()
            raise SetupError(
                f"found no subject in {of}: at least 5 English reviews must mention it, of two "
                "entities if there are several. Give more reviews, or copy a preset"
            )
        entities = len({review.entity for review in reviews})
        return definitions_file(suggestions, f"{of} of {output.many(entities, 'entities')}")

    def finish(self) -> int:
        """Report; returns the number of lines that cannot be used."""
        warn_left_out(self._reviews)
        seconds = f"{time.monotonic() - self._started:.1f} s"
        output.note(f"{output.many(self._findings.lines, self._reviews.unit)}, {seconds}")
        self._findings.complain()
        return self._findings.total

    def _read(self) -> list[ReviewTexts]:
        live = LiveReviews(self._limits)
        for record in self._findings.usable(self._reviews, self._reviews.unit):
            (event,) = decode([record], self._limits)
            assert not isinstance(event, (list, Ignored))  # which only a mapping makes
            rejected = event if isinstance(event, Rejected) else live.apply(event)
            if rejected is not None:
                self._findings.add(Faulty(record.offset + 1, rejected.reason, rejected.detail))
        return live.reviews()

    def _embedded(self, texts: list[str]) -> NDArray[np.float32]:
        parts = []
        with output.file_progress(len(texts), "sentences embedded") as progress:
            for at in range(0, len(texts), EMBEDDED):
                parts.append(self._engine.embed(texts[at : at + EMBEDDED]))
                progress.update(at + len(parts[-1]), at + len(parts[-1]))
        return np.concatenate(parts)
