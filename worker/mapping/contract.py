"""Records of a mapped topic as messages of the contract, keyed by entity: what a bridge writes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from worker import __version__
from worker.events import Ignored, Limits, Message, Reason, Record, Rejected, dead_letter_message
from worker.events.decode import check_several
from worker.events.inputs import Body
from worker.events.messages import message_bytes
from worker.events.reasons import BadEvent
from worker.limits import Limit
from worker.mapping.topic import TopicMapping


class Bridged(NamedTuple):
    """The messages of some records, and how many had each outcome, by event type."""

    messages: list[Message]
    outcomes: Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ContractWriter:
    """Maps records to events for `topic`, and to dead letters for `dlq_topic`.

    `partition_of` gives the partition of an entity in `topic`; a message has at most `max_bytes`.
    The events of a record that has several are checked by `limits`, so that the worker takes all of
    them: all are written, or the record is a dead letter.
    """

    mapping: TopicMapping
    topic: str
    partition_of: Callable[[str], int]
    dlq_topic: str
    max_bytes: int
    limits: Limits

    def write(self, records: Sequence[Record]) -> Bridged:
        """The messages of these records, in their order. Never raises for bad input."""
        messages: list[Message] = []
        outcomes: Counter[tuple[str, str]] = Counter()
        for record in records:
            try:
                found = self._events(record)
                outcomes.update(outcome for _, outcome in found)
            except BadEvent as bad:
                rejected = self.mapping.explain(record, bad.rejected)
                outcomes["unreadable", f"dead_letter:{rejected.reason}"] += 1
                messages.append(
                    dead_letter_message(
                        self.dlq_topic, record, rejected, __version__, self.max_bytes
                    )
                )
                continue
            if not found:
                outcomes["none", f"ignored:{Ignored.BY_MAPPING}"] += 1
            messages += [message for message, _ in found]
        return Bridged(messages, outcomes)

    def _events(self, record: Record) -> list[tuple[Message, tuple[str, str]]]:
        bodies = self.mapping.read_all(record)
        if len(bodies) > 1 and isinstance(why := check_several(bodies, self.limits), Rejected):
            raise BadEvent(*why)
        return [self._event(body) for body in bodies]

    def _event(self, body: Body) -> tuple[Message, tuple[str, str]]:
        members = msgspec.to_builtins(body)
        given = {name: value for name, value in members.items() if value is not None}
        if given["type"] == "review.upserted" and not given.keys() & {"text", "sentences"}:
            given["text"] = None  # one of the two must be there
        key, value = body.entity_id.encode(), msgspec.json.encode(given)
        if (size := message_bytes(key, value, [])) > self.max_bytes:
            raise BadEvent(
                Reason.TOO_LARGE,
                f"the event has {size} bytes, at most {self.max_bytes} are sent "
                "(COVERSUMM_MAX_MESSAGE_BYTES)",
                Limit.EVENT_BYTES,
            )
        partition = self.partition_of(body.entity_id)
        return Message(self.topic, partition, key, value, []), (given["type"], "applied")
