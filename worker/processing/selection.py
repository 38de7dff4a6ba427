"""Which records of its input a replay takes: those of some entities, or of a span of the events' own time."""

from dataclasses import dataclass

from worker.events import Event, Record, Rejected
from worker.events.dates import milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Records of these entities, from `since_ms` to before `until_ms` by `occurred_at`; None: whatever it is.

    An event that does not say when it occurred, and a record that holds no event, counts as of the record's timestamp.
    """

    entities: frozenset[bytes] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.entities is None and not self.is_by_time

    @property
    def is_by_time(self) -> bool:
        """Whether the events' own time counts."""
        return self.since_ms is not None or self.until_ms is not None

    def has_entity(self, record: Record) -> bool:
        """Whether the record is of one of the entities, by its key."""
        return self.entities is None or record.key in self.entities

    def has_time(self, record: Record, event: Event | Rejected) -> bool:
        """Whether the event occurred in the span."""
        occurred_ms = occurred(record, event)
        return (self.since_ms is None or occurred_ms >= self.since_ms) and (
            self.until_ms is None or occurred_ms < self.until_ms
        )

    def is_late(self, record: Record) -> bool:
        """Whether an event of the span arrived when the span was over."""
        return self.until_ms is not None and record.timestamp_ms >= self.until_ms


def occurred(record: Record, event: Event | Rejected) -> int:
    """When the event occurred, in milliseconds since 1970."""
    said = None if isinstance(event, Rejected) else event.occurred_at
    return record.timestamp_ms if said is None else milliseconds(said)


ALL = Selection()
