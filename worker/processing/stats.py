"""The counts of a micro-batch, for metrics."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.coversumm import Counters as CoreCounters
from worker.events import TRUNCATED_HEADERS, Ignored, Message, Record, Rejected
from worker.events.publishing import SUMMARIES
from worker.limits import Limit
from worker.processing.changes import Outcome
from worker.processing.config import RecordSelection
from worker.processing.plan import BatchPlan
from worker.text.language import UNKNOWN

UNREADABLE = "unreadable"  # the event type of a dead letter without an event
SEVERAL = "several"  # the event type of a record with several events
NO_EVENT = "none"  # of other records of which no event was read: applied already, left out


class Coordinates(NamedTuple):
    """The place of a record. Logs name only this, never the record's text."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Stats:
    """The counts of a micro-batch. Every record has exactly one outcome."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (event type, `applied` | `ignored:reason` | `dead_letter:reason`)."""
    first_letters: dict[str, Coordinates] = field(default_factory=dict)
    """By reason, the first record that became a dead letter."""
    lone_surrogates: int = 0  # records with U+FFFD for some
    mapping_notes: Counter[tuple[str, str]] = field(default_factory=Counter)  # of `Notes.take`
    future_dates: int = 0  # of reviews that count as undated
    set_changes: int = 0  # changes of entities' sets, published or not
    entities: int = 0  # created minus deleted
    late: int = 0  # selected events that arrived after the end of the span
    changes: int = 0
    facets_changes: int = 0  # messages, each of all facets of an entity
    tombstones: int = 0
    sentences_embedded: int = 0  # distinct texts passed to the engine
    embed_seconds: float = 0.0
    read_by_model: Counter[str] = field(default_factory=Counter)
    """Sentences without a given vector, by whether the model declares the language of their review:
    `yes`, `no`, `unknown`; empty if it declares none.
    """
    unread: Counter[str] = field(default_factory=Counter)  # those of `no` by language
    vectors_found: int = 0  # distinct texts found in the vector store
    vectors_missed: int = 0  # distinct texts not found there
    vector_store_bytes: int | None = None  # on disk; None without a store
    process_seconds: float = 0.0
    core: CoreCounters = field(default_factory=CoreCounters)  # how steps were decided
    cached_entities: int = 0
    cache_bytes: int = 0
    limits: Counter[Limit] = field(default_factory=Counter)  # how often each was hit

    @property
    def records(self) -> int:
        """Records of the micro-batch."""
        return self.outcomes.total()

    def dead_letters(self) -> Counter[str]:
        """Dead letters by reason."""
        letters: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            verdict, _, reason = outcome.partition(":")
            if verdict == "dead_letter":
                letters[reason] += count
        return letters

    def count_outcomes(
        self, records: Sequence[Record], types: Iterable[str], outcomes: Sequence[Outcome]
    ) -> None:
        """Count the outcome of each record under its event type."""
        self.outcomes.update(zip(types, map(_name, outcomes), strict=True))
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Rejected):
                place = Coordinates(*records[index][:3])
                self.first_letters.setdefault(outcome.reason.value, place)
                if outcome.limit:
                    self.limits[outcome.limit] += 1

    def count_messages(
        self, messages: Iterable[Message], output_topic: str, facets_topic: str | None
    ) -> None:
        """Count changes of summaries and facets, tombstones, and truncated dead letters."""
        for message in messages:
            if message.topic == output_topic:
                self.changes += message.value is not None
                self.tombstones += message.value is None
            elif message.topic == facets_topic:
                self.facets_changes += message.value is not None
            elif any(name in TRUNCATED_HEADERS for name, _ in message.headers):
                self.limits[Limit.MESSAGE_BYTES] += 1

    def count_plan(self, plan: BatchPlan, model_languages: Collection[str] | None) -> None:
        """Count languages, cut sentences, set changes, entities and the core's decisions, after
        ranking.
        """
        self.future_dates += plan.future_dates
        if model_languages is not None:
            for language, count in plan.languages.items():
                is_read = "yes" if language in model_languages else "no"
                is_known = language not in ("", UNKNOWN)
                self.read_by_model[is_read if is_known else "unknown"] += count
                if is_known and is_read == "no":
                    self.unread[language] += count
        if plan.cut_sentences:
            self.limits[Limit.SENTENCE_CHARS] += plan.cut_sentences
        for changes in plan.changes:
            changes.entity.count(self.core)
            self.set_changes += changes.changed[SUMMARIES]
            self.entities += changes.is_new - (changes.end is not None)

    def count_late(
        self, records: Sequence[Record], outcomes: Sequence[Outcome], selection: RecordSelection
    ) -> None:
        """Count the processed records that arrived late."""
        left_out = (Ignored.NOT_SELECTED, Ignored.ALREADY_APPLIED)
        self.late += sum(
            selection.is_late(record)
            for record, outcome in zip(records, outcomes, strict=True)
            if outcome not in left_out
        )


def _name(outcome: Outcome) -> str:
    if outcome is None:
        return "applied"
    if isinstance(outcome, Rejected):
        return f"dead_letter:{outcome.reason}"
    return f"ignored:{outcome}"
