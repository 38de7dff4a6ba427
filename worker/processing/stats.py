"""What a micro-batch came to, for metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from worker.coversumm import Counters as CoreCounters
from worker.events import TRUNCATED_HEADERS, Message, Rejected
from worker.limits import Limit
from worker.processing.plan import Outcome, Plan

UNREADABLE = "unreadable"
"""Stands for the event type of a record that holds no event."""


@dataclass(slots=True)
class Stats:
    """What a micro-batch came to. Every record has exactly one outcome."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (event type, `applied` | `ignored:reason` | `dead_letter:reason`)."""
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

    def count_outcomes(self, types: Iterable[str], outcomes: Sequence[Outcome]) -> None:
        """What became of each record, with its event type."""
        self.outcomes.update(zip(types, map(_name, outcomes), strict=True))
        self.limits.update(
            outcome.limit for outcome in outcomes if isinstance(outcome, Rejected) and outcome.limit
        )

    def count_messages(self, messages: Iterable[Message], output_topic: str) -> None:
        """Summary changes, tombstones, and dead letters that were cut."""
        for message in messages:
            if message.topic == output_topic:
                self.changes += message.value is not None
                self.tombstones += message.value is None
            elif any(name in TRUNCATED_HEADERS for name, _ in message.headers):
                self.limits[Limit.MESSAGE_BYTES] += 1

    def count_plan(self, plan: Plan) -> None:
        """Sentences that were cut, and how the core decided the planned steps once they are ranked."""
        if plan.cut_sentences:
            self.limits[Limit.SENTENCE_CHARS] += plan.cut_sentences
        for changes in plan.changes:
            changes.entity.count(self.core)


def _name(outcome: Outcome) -> str:
    if outcome is None:
        return "applied"
    if isinstance(outcome, Rejected):
        return f"dead_letter:{outcome.reason}"
    return f"ignored:{outcome}"
