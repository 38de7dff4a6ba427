"""A run of `summarize`: what it makes of the events of files, and what it writes of that: every
change, the last one of each entity, or each entity's state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec

from worker.events import Message, Record
from worker.events.codec import DEFAULT
from worker.events.decode import RecordMapping
from worker.events.notes import left_out
from worker.operations.findings import Findings, counted, warn_left_out, warn_unread
from worker.operations.languages import Languages
from worker.processing.config import check_index, configured_engine, processor_config
from worker.processing.embed import VectorStore
from worker.processing.entity_view import (
    KINDS,
    EntityView,
    Extent,
    FacetsView,
    Overview,
    Reads,
    ShortView,
    SummaryView,
    V,
)
from worker.processing.in_memory import ProcessorInMemory, Refusal
from worker.settings import Settings
from worker.sources import CutShort, Entry, Faulty, ReviewFiles, timely
from worker.storage.vectors import open_vector_store
from worker.text.declared import facts_of
from worker.text.engine import EmbeddingEngine
from worker.view import output
from worker.view.writing import Sink

COUNTS = ("review_count", "sentence_count", "ratings", "mentions")
COALESCED_LINES = 1000  # lines whose net change `summarize --emit coalesced` writes
Lines = Callable[[Iterable[bytes]], Iterable[bytes]]  # formats bodies and states for output


@dataclass(slots=True)
class Outcome:
    """The result of some records."""

    changes: list[Message] = field(default_factory=list)
    """Messages of the output topic and that of facets, in the order of the records, that of the
    summary first.
    """
    rejected: list[Faulty] = field(default_factory=list)  # records that became dead letters
    ignored: Counter[str] = field(default_factory=Counter)  # ignored events by reason
    entities: set[str] = field(default_factory=set)  # those that an event had an effect on
    future_dates: int = 0  # see `Stats`
    left_out: Counter[str] = field(default_factory=Counter)  # values that a mapping could not read


class FileSummarizer:
    """All entities of one file, in memory; the records' offsets must ascend."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        engine: EmbeddingEngine | None,
        vectors: VectorStore | None = None,
        mapping: RecordMapping | None = None,
    ) -> None:
        """Works as on an input topic of one partition. Raises SetupError."""
        check_index(settings.index)
        made = processor_config(settings, 1, engine, mapping=mapping)
        config = replace(made, input_topic=topic, output=DEFAULT)
        self._processor = ProcessorInMemory(config, engine, vectors)

    def take(self, records: Sequence[Record]) -> Outcome:
        """The result of the next records. Never raises for bad input."""
        outcome = Outcome()
        for batch in self._processor.process(records):
            outcome.entities.update(key.entity_id for key in batch.touched)
            outcome.future_dates += batch.stats.future_dates
            outcome.left_out += left_out(batch.stats.mapping_notes)
            for (_, name), count in batch.stats.outcomes.items():
                if name.startswith("ignored:"):
                    outcome.ignored[name.removeprefix("ignored:")] += count
            config = self._processor.config
            for message in batch.messages:
                if message.topic in (config.output_topic, config.facets_topic):
                    outcome.changes.append(message)
                else:
                    offset, reason, detail = Refusal.of(message)
                    outcome.rejected.append(Faulty(offset + 1, reason, detail))
        return outcome

    def view(self, entity_id: str, kind: Reads[V], extent: Extent | None = None) -> V | None:
        """The entity after the last record; None if it does not exist. Raises NoFacets."""
        return self._processor.view(entity_id, kind, extent)


def body_lines(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Bodies as lines."""
    return (body + b"\n" for body in bodies)


class AllChanges:
    """Writes each change at once, as a line."""

    def at_once(self, outcome: Outcome) -> bytes:
        """The output after some records."""
        bodies = (change.value for change in outcome.changes if change.value is not None)
        return b"".join(body_lines(bodies))

    def at_end(self, _summarizer: FileSummarizer) -> Iterable[bytes]:
        """The output after all records."""
        return ()


@dataclass
class FinalChanges(AllChanges):
    """Writes the last changes of each entity with sentences at the end, by entity id, that of the
    summary first: as compaction of both topics would leave them, but with the counts of the end.
    """

    _bodies: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _topics: list[str] = field(default_factory=list)  # of summaries first: their changes are first

    def at_once(self, outcome: Outcome) -> bytes:
        for change in outcome.changes:
            if change.topic not in self._topics:
                self._topics.append(change.topic)
            key = (change.key or b"").decode(), self._topics.index(change.topic)
            if change.value is None:
                self._bodies.pop(key, None)
            else:
                self._bodies[key] = change.value
        return b""

    def at_end(self, summarizer: FileSummarizer) -> Iterable[bytes]:
        for (entity, _), body in sorted(self._bodies.items()):
            if _head(body).has_sentences:
                change = msgspec.json.decode(body)
                view = summarizer.view(entity, KINDS["facets" if "facets" in change else "set"])
                _recount(change, msgspec.to_builtins(view))
                yield msgspec.json.encode(change) + b"\n"


def _recount(change: dict[str, Any], now: dict[str, Any]) -> None:
    """Give a change and its facets, or one of these, the counts and the order of a view."""
    change |= {name: now[name] for name in COUNTS if name in change}
    if "facets" in change:
        facets = {(facet["name"], facet.get("language")): facet for facet in change["facets"]}
        change["facets"] = [facets[facet["name"], facet.get("language")] for facet in now["facets"]]
        for facet, counted_now in zip(change["facets"], now["facets"], strict=True):
            _recount(facet, counted_now)


class _Head(msgspec.Struct):
    """A body of either type: sentences, or facets that have them."""

    sentences: list[msgspec.Raw] = []
    facets: list[_Head] = []

    @property
    def has_sentences(self) -> bool:
        return bool(self.sentences) or any(facet.sentences for facet in self.facets)


_head = msgspec.json.Decoder(_Head).decode


@dataclass
class FinalStates(AllChanges):
    """Writes the state of each entity with sentences at the end, by entity id.

    It has the counts and ranks after the last event, which a published change need not have.
    `views` are named as `--view` names them; `extent` is that of the short view and the overview.
    """

    lines: Lines
    views: Sequence[str]
    extent: Extent | None
    _entities: set[str] = field(default_factory=set)

    def at_once(self, outcome: Outcome) -> bytes:
        self._entities |= outcome.entities
        return b""

    def at_end(self, summarizer: FileSummarizer) -> Iterable[bytes]:
        return self.lines(self._states(summarizer))

    def _states(self, summarizer: FileSummarizer) -> Iterator[bytes]:
        left_out = 0
        for entity in sorted(self._entities):
            for view in self.views:
                state = summarizer.view(entity, KINDS[view], self.extent)
                if state is not None and _is_shown(state):
                    yield msgspec.json.encode(state)
                elif isinstance(state, Overview) and state.language:
                    left_out += 1
        if left_out:
            output.note(
                f"no overview of {output.many(left_out, 'entities')}: no facet of the language has "
                "COVERSUMM_LANGUAGE_MIN sentences"
            )


def _is_shown(state: EntityView) -> bool:
    if isinstance(state, FacetsView):
        return any(facet.sentences for facet in state.facets)
    return isinstance(state, SummaryView | ShortView | Overview) and bool(state.sentences)


@dataclass(eq=False)
class SummarizeRun:
    """The files from their first line to their last."""

    reviews: ReviewFiles
    settings: Settings
    form: AllChanges
    sink: Sink
    mapping: RecordMapping | None = None

    def __post_init__(self) -> None:
        self._findings = Findings(self.reviews)
        self._total = Outcome()  # without changes and rejected records
        self._changes = 0
        self._started = time.monotonic()
        self._summarizer: FileSummarizer | None = None
        self._languages: Languages | None = None
        self._cut_short: CutShort | None = None

    def summarize(self) -> int:
        """Read, write and report; returns the exit code. Raises SetupError."""
        try:
            self._process()
        except (KeyboardInterrupt, CutShort) as cause:
            self._finish("interrupted: " if isinstance(cause, KeyboardInterrupt) else "cut short: ")
            if (path := self.sink.keep()) is not None:
                output.note(f"the output so far is in {path}")
            raise
        self._finish()
        return output.CHECK_FAILED if self._findings.total else 0

    def _process(self) -> None:
        settings, reviews = self.settings, self.reviews
        with output.file_progress(reviews.size, reviews.unit) as progress, ExitStack() as ending:
            engine = configured_engine(settings)
            vectors = open_vector_store(settings, engine)
            if vectors is not None:
                ending.callback(vectors.close)
                if not vectors.is_writer:
                    output.note(
                        "warning: another process writes the vector store: "
                        "vectors embedded here are not kept"
                    )
            self._summarizer = FileSummarizer(
                settings, reviews.topic, engine, vectors, self.mapping
            )
            reads = facts_of(engine).languages
            is_of_texts = engine is not None and self.mapping is None
            if settings.facets and is_of_texts and reads is not None:
                self._languages = Languages(reads)
            is_coalesced = settings.emit == "coalesced"
            entries = self._entries()
            for batch in fixed_batches(entries) if is_coalesced else timely(entries):
                self._take(batch, self._summarizer, progress)
        if self._cut_short is not None:
            raise self._cut_short

    def _entries(self) -> Iterator[Entry | None]:
        """The entries up to the place where a file cannot be read, so that batches stay whole."""
        try:
            yield from self.reviews
        except CutShort as error:
            self._cut_short = error

    def _take(
        self, batch: list[Entry], summarizer: FileSummarizer, progress: output.FileProgress
    ) -> None:
        records = [entry for entry in batch if isinstance(entry, Record)]
        outcome = summarizer.take(records)
        if self._languages is not None:
            for record in records:
                self._languages.add(record.value)
        faulty = [entry for entry in batch if isinstance(entry, Faulty)]
        self._findings.lines += len(batch) + sum(fault.lines - 1 for fault in faulty)
        self._total.ignored += outcome.ignored
        self._total.entities |= outcome.entities
        self._total.future_dates += outcome.future_dates
        self._total.left_out += outcome.left_out
        self._changes += sum(change.value is not None for change in outcome.changes)
        with progress.hidden():
            self.sink.write(self.form.at_once(outcome))
        for fault in sorted([*outcome.rejected, *faulty]):
            self._findings.add(fault)
        progress.update(self.reviews.position, self._findings.lines)

    def _finish(self, prefix: str = "") -> None:
        """Write the final output, and report."""
        if self._summarizer is not None:
            for part in self.form.at_end(self._summarizer):
                self.sink.write(part)
        warn_left_out(self.reviews)
        warn_unread(self._total.left_out)
        if self._total.future_dates:
            dates = output.many(self._total.future_dates, "dates")
            output.note(f"warning: {dates} after 2099: facets take these reviews as undated")
        if self._languages is not None and (unread := self._languages.warning):
            output.note(unread)
        report = [
            output.many(self._findings.lines, self.reviews.unit),
            output.many(len(self._total.entities), "entities"),
            output.many(self._changes, "changes"),
            f"{time.monotonic() - self._started:.1f} s",
        ]
        if self._total.ignored:
            report.append(f"ignored: {counted(self._total.ignored)}")
        output.note(prefix + ", ".join(report))
        self._findings.complain()


def fixed_batches(entries: Iterable[Entry | None]) -> Iterator[list[Entry]]:
    """Entries in lists of a fixed length, so that coalesced output does not depend on time."""
    remaining = (entry for entry in entries if entry is not None)
    while batch := list(islice(remaining, COALESCED_LINES)):
        yield batch
