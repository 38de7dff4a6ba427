"""Records of a mapped topic as messages of the contract, keyed by entity: what a bridge writes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from worker import __version__
from worker.events import Ignored, Limits, Message, Reason, Record, Rejected, dead_letter_message
from worker.events.decode import check_several
from worker.events.inputs import Body
from worker.events.internal_errors import internal_error, internal_errors
from worker.events.messages import message_bytes
from worker.events.reasons import BadEvent
from worker.limits import Limit
from worker.mapping.topic import TopicMapping


class Bridged(NamedTuple):
    """The messages of some records, the outcomes by event type, and the last internal errors."""

    messages: list[Message]
    outcomes: Counter[tuple[str, str]]
    in_a_row: int


def members_of(body: Body) -> dict[str, Any]:
    """The members of an event that are not null, with its type; labels stay as they came."""
    members = {"type": body.__struct_config__.tag, **msgspec.structs.asdict(body)}
    return {
        name: member
        for name, member in members.items()
        if member is not None and member is not UNSET
    }


def event_of(body: Body) -> tuple[bytes, bytes]:
    """Key and value of an event of the contract."""
    given = members_of(body)
    if given["type"] == "review.upserted" and not given.keys() & {"text", "sentences"}:
        given["text"] = None  # one of the two must be there
    return body.entity_id.encode(), msgspec.json.encode(given)


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

    def write(self, records: Sequence[Record], in_a_row: int = 0) -> Bridged:
        """The messages of these records, in their order, after so many internal errors in a row.
        Never raises for bad input, but Crash for too many internal errors.
        """
        messages: list[Message] = []
        outcomes: Counter[tuple[str, str]] = Counter()
        for record in records:
            found = self._judged(record)
            in_a_row = internal_errors(in_a_row, [found])
            if isinstance(found, Rejected):
                outcomes["unreadable", f"dead_letter:{found.reason}"] += 1
                messages.append(
                    dead_letter_message(self.dlq_topic, record, found, __version__, self.max_bytes)
                )
                continue
            if not found:
                outcomes["none", f"ignored:{Ignored.BY_MAPPING}"] += 1
            outcomes.update(outcome for _, outcome in found)
            messages += [message for message, _ in found]
        return Bridged(messages, outcomes, in_a_row)

    def _judged(self, record: Record) -> list[tuple[Message, tuple[str, str]]] | Rejected:
        try:
            return self._events(record)
        except BadEvent as bad:
            return self.mapping.explain(record, bad.rejected)
        except Exception as error:
            return internal_error(error)

    def _events(self, record: Record) -> list[tuple[Message, tuple[str, str]]]:
        bodies = self.mapping.read_all(record)
        if len(bodies) > 1 and isinstance(why := check_several(bodies, self.limits), Rejected):
            raise BadEvent(*why)
        return [self._event(body) for body in bodies]

    def _event(self, body: Body) -> tuple[Message, tuple[str, str]]:
        key, value = event_of(body)
        if (size := message_bytes(key, value, [])) > self.max_bytes:
            raise BadEvent(
                Reason.TOO_LARGE,
                f"the event has {size} bytes, at most {self.max_bytes} are sent "
                "(COVERSUMM_MAX_MESSAGE_BYTES)",
                Limit.EVENT_BYTES,
            )
        partition = self.partition_of(body.entity_id)
        kind = str(body.__struct_config__.tag)
        return Message(self.topic, partition, key, value, []), (kind, "applied")
