"""What a micro-batch came to, for metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.coversumm import Counters as CoreCounters
from worker.events import TRUNCATED_HEADERS, Ignored, Message, Record, Rejected
from worker.limits import Limit
from worker.processing.config import RecordSelection
from worker.processing.plan import BatchPlan, Outcome

UNREADABLE = "unreadable"
"""Stands for the event type of a record that holds no event."""


class Coordinates(NamedTuple):
    """Where a record is: all that logs say of it, since its text is nobody's business there."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class Stats:
    """What a micro-batch came to. Every record has exactly one outcome."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (event type, `applied` | `ignored:reason` | `dead_letter:reason`)."""
    first_letters: dict[str, Coordinates] = field(default_factory=dict)
    """By reason, the first record that became a dead letter."""
    set_changes: int = 0
    """How often the set of an entity changed, whatever of it is published."""
    entities: int = 0
    """Entities that came, less those that went."""
    late: int = 0
    """Events of a span by their own time that arrived when it was over."""
    changes: int = 0
    tombstones: int = 0
    sentences_embedded: int = 0
    """Distinct texts the engine was given."""
    embed_seconds: float = 0.0
    vectors_found: int = 0
    """Distinct texts whose vectors the vector store had."""
    vectors_missed: int = 0
    """Distinct texts that it did not have."""
    vector_store_bytes: int | None = None
    """On disk; None without a store."""
    process_seconds: float = 0.0
    core: CoreCounters = field(default_factory=CoreCounters)
    """How steps were decided, and refills."""
    cached_entities: int = 0
    cache_bytes: int = 0
    limits: Counter[Limit] = field(default_factory=Counter)
    """How often each limit was hit."""

    @property
    def records(self) -> int:
        """Records of the micro-batch."""
        return self.outcomes.total()

    def dead_letters(self) -> Counter[str]:
        """How many, by reason."""
        letters: Counter[str] = Counter()
        for (_, outcome), count in self.outcomes.items():
            verdict, _, reason = outcome.partition(":")
            if verdict == "dead_letter":
                letters[reason] += count
        return letters

    def count_outcomes(
        self, records: Sequence[Record], types: Iterable[str], outcomes: Sequence[Outcome]
    ) -> None:
        """What became of each record, with its event type."""
        self.outcomes.update(zip(types, map(_name, outcomes), strict=True))
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Rejected):
                place = Coordinates(*records[index][:3])
                self.first_letters.setdefault(outcome.reason.value, place)
                if outcome.limit:
                    self.limits[outcome.limit] += 1

    def count_messages(self, messages: Iterable[Message], output_topic: str) -> None:
        """Summary changes, tombstones, and dead letters that were cut."""
        for message in messages:
            if message.topic == output_topic:
                self.changes += message.value is not None
                self.tombstones += message.value is None
            elif any(name in TRUNCATED_HEADERS for name, _ in message.headers):
                self.limits[Limit.MESSAGE_BYTES] += 1

    def count_plan(self, plan: BatchPlan) -> None:
        """Sentences that were cut, and how the core decided the planned steps once they
        are ranked.
        """
        if plan.cut_sentences:
            self.limits[Limit.SENTENCE_CHARS] += plan.cut_sentences
        for changes in plan.changes:
            changes.entity.count(self.core)
            self.set_changes += changes.set_changes
            self.entities += changes.is_new - (changes.end is not None)

    def count_late(
        self, records: Sequence[Record], outcomes: Sequence[Outcome], selection: RecordSelection
    ) -> None:
        """Of the records that were taken, those that arrived late."""
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
