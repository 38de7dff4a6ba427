"""A run of `facets suggest`: the live short sentences of files, embedded and clustered."""

import time
from collections import Counter
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
from worker.facets import suggest as clusters
from worker.operations.findings import Findings, warn_left_out
from worker.processing.config import configured_engine, event_limits
from worker.processing.plan import split_review
from worker.settings import Settings
from worker.sources import Entry, Faulty, ReviewFiles
from worker.state.keys import review_of
from worker.text.engine import EmbeddingEngine
from worker.view import output

MAX_TEXTS = 20_000  # different sentences that are embedded and clustered
EMBEDDED = 512  # texts embedded between two updates of the progress


@dataclass
class LiveSentences:
    """The short sentences of the reviews that events leave, in the order of the events: of two
    upserts of a review the later one counts.
    """

    limits: Limits
    _entities: dict[str, dict[bytes, dict[bytes, str]]] = field(default_factory=dict)
    """Texts by entity, review and sentence id."""

    def apply(self, event: Event) -> Rejected | None:
        """The event's effect, or why it has none."""
        reviews = self._entities.setdefault(event.entity_id, {})
        if isinstance(event, ReviewUpserted):
            review_id = event.review_id.encode()
            found = split_review(review_id, event, self.limits)
            if isinstance(found, Rejected):
                return found
            sentences, _ = found
            short = {
                sentence.id: sentence.text
                for sentence in sentences
                if clusters.is_short(sentence.text)
            }
            reviews[review_id] = short
        elif isinstance(event, ReviewDeleted):
            reviews.pop(event.review_id.encode(), None)
        elif isinstance(event, SentencesDeleted):
            for sentence_id in map(str.encode, event.sentence_ids):
                reviews.get(review_of(sentence_id), {}).pop(sentence_id, None)
        else:
            del self._entities[event.entity_id]
        return None

    def entities_of(self) -> dict[str, Counter[str]]:
        """Counts of each text by entity."""
        found: dict[str, Counter[str]] = {}
        for entity, reviews in self._entities.items():
            for sentences in reviews.values():
                for text in sentences.values():
                    found.setdefault(text, Counter())[entity] += 1
        return found


class SuggestRun:
    """The files from their first line to the suggestions. Construction raises SetupError without an
    embedder.
    """

    def __init__(self, reviews: ReviewFiles, settings: Settings) -> None:
        engine = configured_engine(settings)
        if engine is None:
            raise SetupError(
                "facets are suggested as phrases, which need an embedder, and COVERSUMM_EMBEDDER "
                "is none: pass --embedder"
            )
        self._engine: EmbeddingEngine = engine
        self._reviews = reviews
        limits = event_limits(settings)
        self._limits = replace(limits, dimension=engine.dimension, model=engine.model)
        self._findings = Findings(reviews)
        self._lines = 0
        self._started = time.monotonic()

    def suggest(self, facets: int) -> str:
        """The file with at most so many suggestions. Raises SetupError for too few sentences."""
        found = self._read()
        least = clusters.PER_FACET * facets
        if len(found) < least:
            self.finish()
            raise SetupError(
                f"only {output.many(len(found), 'different sentences')} of 3 to 12 words: "
                f"{least} are needed for {facets} facets: give more reviews, or lower --facets"
            )
        total = sum(counts.total() for counts in found.values())
        drawn = f"{len(found):,} different ones"
        if len(found) > MAX_TEXTS:
            rows = np.random.default_rng(clusters.SEED).choice(len(found), MAX_TEXTS, replace=False)
            texts = list(found)
            found = {texts[row]: found[texts[row]] for row in sorted(rows.tolist())}
            drawn = f"{MAX_TEXTS:,} drawn of {drawn}"
        sentences = clusters.ShortSentences(found)
        phrases, _ = clusters.reference_phrases()
        vectors = self._embedded([*sentences.texts, *phrases])
        count = len(sentences.texts)
        suggestions = clusters.suggest(sentences, vectors[:count], vectors[count:], facets)
        entities = output.many(sentences.entity_count, "entities")
        of = f"{total:,} sentences of 3 to 12 words, {drawn}, of {entities}"
        return clusters.definitions_file(suggestions, of)

    def finish(self) -> int:
        """Report; returns the number of lines that cannot be used."""
        warn_left_out(self._reviews)
        seconds = f"{time.monotonic() - self._started:.1f} s"
        output.note(f"{output.many(self._lines, self._reviews.unit)}, {seconds}")
        self._findings.complain(self._lines, self._reviews.unit)
        return self._findings.total

    def _read(self) -> dict[str, Counter[str]]:
        live = LiveSentences(self._limits)
        with output.file_progress(self._reviews.size, self._reviews.unit) as progress:
            for entry in self._reviews:
                if entry is None:
                    continue
                self._lines += entry.lines if isinstance(entry, Faulty) else 1
                if (fault := self._applied(entry, live)) is not None:
                    self._findings.add(fault)
                progress.update(self._reviews.position, self._lines)
        return live.entities_of()

    def _applied(self, entry: Entry, live: LiveSentences) -> Faulty | None:
        """Apply the event of a line; the line, if it cannot be used."""
        if isinstance(entry, Faulty):
            return entry
        (event,) = decode([entry], self._limits)
        assert not isinstance(event, (list, Ignored))  # which only a mapping makes
        rejected = event if isinstance(event, Rejected) else live.apply(event)
        if rejected is None:
            return None
        return Faulty(entry.offset + 1, rejected.reason, rejected.detail)

    def _embedded(self, texts: list[str]) -> NDArray[np.float32]:
        parts = []
        with output.file_progress(len(texts), "sentences embedded") as progress:
            for at in range(0, len(texts), EMBEDDED):
                parts.append(self._engine.embed(texts[at : at + EMBEDDED]))
                progress.update(at + len(parts[-1]), at + len(parts[-1]))
        return np.concatenate(parts)
