"""What should have been published against what was: pure functions over lists of messages.

Every message has an identity that both sides can compute: the `ce_id` of a summary change or
tombstone, the source offset of a dead letter. From there, five kinds of difference: lost, repeated,
reordered, wrong, additional.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from tests.harness.topics import Message

TRUNCATED_BYTES = 64 << 10
READABLE_BYTES = 64 * 2**20
"""Of a compressed batch; a larger one is a dead letter without its record."""


class Change(NamedTuple):
    """A message that the contract wants in the output topic, or in that of facets: a change, or a
    tombstone when `body` is None.
    """

    partition: int
    entity_id: str
    epoch: int
    sequence: int
    occurred_at: str | None
    body: dict[str, Any] | None
    of_facets: bool = False

    @property
    def ce_id(self) -> str:
        """The contract's UUIDv5."""
        end = (":facets" if self.of_facets else "") + (":tombstone" if self.body is None else "")
        name = f"coversumm:{self.entity_id}:{self.epoch}:{self.sequence}{end}"
        return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


class DeadLetter(NamedTuple):
    """A message that the contract wants in the dead letter topic: the source record and a reason
    code.
    """

    source: Message
    reason: str


class Difference(NamedTuple):
    """One finding. `invariant` is what it breaks (see `verifier.py`), `where` the entity or source
    offset.
    """

    invariant: str
    kind: str
    where: str
    detail: str


def compare_changes(
    expected: Iterable[Change], published: Iterable[Message], *, coalesced: bool = False
) -> list[Difference]:
    """I1, I2 and I3, entity by entity; the order between entities is nobody's promise.

    What `coalesced` leaves out depends on the micro-batches: then every change may be missing but
    the last, and what is compared besides the final summaries is that sequences rise and that each
    is one of the history, and there once.
    """
    wanted: dict[bytes, list[Change]] = defaultdict(list)
    for change in expected:
        wanted[change.entity_id.encode()].append(change)
    found: dict[bytes, list[Message]] = defaultdict(list)
    for message in published:
        found[message.key or b""].append(message)
    differences = [
        difference
        for key in sorted(wanted.keys() | found.keys())
        for difference in _compare_entity(
            key.decode(errors="replace"), wanted[key], found[key], coalesced
        )
    ]
    return [
        d
        for d in differences
        if not coalesced or d.kind in ("additional", "repeated") or d.invariant != "I3"
    ]


def _compare_entity(
    entity: str, wanted: Sequence[Change], found: Sequence[Message], coalesced: bool
) -> list[Difference]:
    by_id = {change.ce_id: change for change in wanted}
    found_ids = [_header(message, "ce_id") for message in found]
    differences = _compare_ids(
        "I3", entity, {i: f"sequence {c.sequence}" for i, c in by_id.items()}, found_ids
    )
    for ce_id, message in zip(found_ids, found, strict=True):
        if ce_id in by_id:
            differences += [
                Difference("I3", "wrong", entity, f"sequence {by_id[ce_id].sequence}: {fault}")
                for fault in _faults(by_id[ce_id], message)
            ]
    sequences = [_body(message)["sequence"] for message in found if message.value is not None]
    for before, after in pairwise(sequences):
        if not before < after:
            differences.append(
                Difference("I2", "reordered", entity, f"sequence {after} after {before}")
            )
    final = _final_set if coalesced else _final
    if final(wanted[-1].body if wanted else None) != final(_body(found[-1]) if found else None):
        differences.append(Difference("I1", "wrong", entity, "the final summary differs"))
    return differences


def _compare_ids(
    invariant: str, where: str, wanted: Mapping[str, str], found: Sequence[str]
) -> list[Difference]:
    """`wanted`: identity -> name for people, in order."""
    counts = Counter(found)
    first_seen = [identity for identity in dict.fromkeys(found) if identity in wanted]
    in_order = [identity for identity in wanted if identity in counts]
    differences = [
        Difference(invariant, "lost", where, name) for i, name in wanted.items() if i not in counts
    ]
    for identity, count in counts.items():
        if identity not in wanted:
            differences.append(
                Difference(invariant, "additional", where, f"{identity} ({count} times)")
            )
        elif count > 1:
            differences.append(
                Difference(invariant, "repeated", where, f"{wanted[identity]}: {count} times")
            )
    if first_seen != in_order:
        at = next(i for i, (a, b) in enumerate(zip(first_seen, in_order, strict=True)) if a != b)
        detail = f"{wanted[first_seen[at]]} where {wanted[in_order[at]]} belongs"
        differences.append(Difference(invariant, "reordered", where, detail))
    return differences


def _faults(change: Change, message: Message) -> list[str]:
    """What is wrong with a message that should be `change`."""
    headers = {
        "ce_type": "entity.deleted" if change.body is None else change.body["type"],
        "ce_specversion": "1.0",
        "content-type": "application/json",
    }
    if change.occurred_at is not None:
        headers["ce_time"] = change.occurred_at
    faults = [
        f"header {name} is {_header(message, name)!r}, not {value!r}"
        for name, value in headers.items()
        if _header(message, name) != value
    ]
    if message.partition != change.partition:
        faults.append(f"in partition {message.partition}, not {change.partition}")
    if (message.value is None) != (change.body is None):
        return [*faults, "a summary and a tombstone are confused"]
    if message.value is not None and change.body is not None:
        faults += _body_faults(change.body, _body(message))
    return faults


def _body_faults(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    if list(wanted) != list(found):
        return [f"fields {list(found)}, not {list(wanted)}"]
    return [
        f"{name} is {_shown(found[name])}, not {_shown(value)}"
        for name, value in wanted.items()
        if not _equal(found[name], value)
    ]


def _equal(body: Any, other: Any) -> bool:
    """Equal as JSON, the order of fields included."""
    return json.dumps(body) == json.dumps(other)


def compare_dead_letters(
    expected: Iterable[DeadLetter], published: Sequence[Message]
) -> list[Difference]:
    """I4: one dead letter for each bad record, with its bytes; and nothing else."""
    wanted = {_source(letter): letter for letter in expected}
    found: dict[str, list[Message]] = defaultdict(list)
    for message in published:
        name = "/".join(
            _header(message, f"dlq.source.{part}") for part in ("topic", "partition", "offset")
        )
        found[name].append(message)
    by_partition: dict[int, dict[str, str]] = defaultdict(dict)
    for name, letter in wanted.items():
        by_partition[letter.source.partition][name] = name
    names: dict[int, list[str]] = defaultdict(list)
    for message in published:
        name = "/".join(
            _header(message, f"dlq.source.{part}") for part in ("topic", "partition", "offset")
        )
        names[message.partition].append(name)
    differences = [
        difference
        for partition in sorted(by_partition.keys() | names.keys())
        for difference in _compare_ids(
            "I4",
            f"dead letters of partition {partition}",
            by_partition[partition],
            names[partition],
        )
    ]
    for name, letter in wanted.items():
        for message in found[name]:
            differences += [
                Difference("I4", "wrong", name, fault) for fault in _letter_faults(letter, message)
            ]
    return differences


def _source(letter: DeadLetter) -> str:
    return f"{letter.source.topic}/{letter.source.partition}/{letter.source.offset}"


def _letter_faults(letter: DeadLetter, message: Message) -> list[str]:
    faults = []
    if _header(message, "dlq.reason") != letter.reason:
        detail = _header(message, "dlq.detail")
        faults.append(f"reason {_header(message, 'dlq.reason')} ({detail}), not {letter.reason}")
    if not _header(message, "dlq.worker.version"):
        faults.append("no worker version")
    value = letter.source.value or b""
    if _header(message, "dlq.missing"):
        lacks_all = (message.key, message.value) == (None, None)
        return [*faults, *([] if lacks_all and len(value) > READABLE_BYTES else ["no record"])]
    if message.key != letter.source.key:
        faults.append("another key")
    cut = _header(message, "dlq.truncated_bytes")
    kept = value[:TRUNCATED_BYTES] if cut else value
    if cut and int(cut) != len(value) - len(kept):
        faults.append(f"says {cut} bytes were cut off, of {len(value)}")
    if (message.value or b"") != kept:
        faults.append("another value")
    return faults


def _final(body: Mapping[str, Any] | None) -> list[Any]:
    """What every run over the same events must end with, whatever its batches: the sentences in
    order.
    """
    if body is None:
        return []
    facets = [body] if "sentences" in body else sorted(body["facets"], key=itemgetter("name"))
    return [sentence for facet in facets for sentence in facet["sentences"]]


def _final_set(body: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """The same of net changes: a set that changed and changed back in one micro-batch was not
    published with new distances.
    """
    return {(sentence["sentence_id"], sentence["text"]) for sentence in _final(body)}


def _header(message: Message, name: str) -> str:
    return next(
        (value.decode(errors="replace") for key, value in message.headers if key == name), ""
    )


def _body(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(message.value or b"null")
    return body


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."
