"""The rows of a partition itself: offset, output topic, fingerprint, garbage, last changes."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice

import msgspec

from worker.events import ALGORITHM
from worker.events.publishing import SUMMARIES, OutputTopic
from worker.facets.membership import FacetCriteria
from worker.state import rows as formats
from worker.state.errors import FingerprintMismatch, IncompleteState
from worker.state.keys import (
    APPLIED,
    CRITERIA,
    FINGERPRINT,
    GARBAGE,
    LAST_CHANGE,
    MIN_CHANGES,
    OUTPUTS,
    entity_of_last_change,
    garbage_key,
    incarnation_prefix,
    last_change_key,
    parse_garbage_key,
)
from worker.state.rows import Applied, LastChange, Output
from worker.state.store import Pending, Rows

GARBAGE_ROWS = 2000
"""Rows of deleted entities removed per micro-batch: few beside a batch's own rows."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The facts that stored summaries depend on besides the events, and their epoch.

    State with another fingerprint is never continued.
    """

    model: str
    dimension: int
    splitter: str
    k: int
    distinct: bool
    partitions: int
    topic: str
    epoch: int
    algorithm: str = ALGORITHM
    facets: str | None = None  # the identity of their definitions; None without facets
    language: str | None = None  # of what finds languages; None if no facet depends on them
    weigh: str | None = None  # `texts`; None with `reviews`

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Fingerprint":
        """Inverse of `fields`; ignores fields of later versions."""
        return msgspec.convert(fields, cls, strict=False)  # numbers are text there

    def fields(self) -> dict[str, str]:
        """Names and values as stored and compared."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}


def read_applied(rows: Rows) -> Applied | None:
    """The partition's applied offset, or None before the first event."""
    value = rows.get(APPLIED)
    return None if value is None else formats.decode_applied(APPLIED, value)


def put_applied(pending: Pending, applied: Applied) -> None:
    """Write the partition's applied offset."""
    pending[APPLIED] = formats.encode_applied(APPLIED, applied)


def read_output(rows: Rows, topic: OutputTopic = SUMMARIES) -> Output | None:
    """Where the partition's sets of the topic are published; None before the first event."""
    key = OUTPUTS[topic]
    value = rows.get(key)
    return None if value is None else formats.decode_output(key, value)


def put_output(pending: Pending, output: Output, topic: OutputTopic = SUMMARIES) -> None:
    """Write where the partition's sets of the topic are published."""
    key = OUTPUTS[topic]
    pending[key] = formats.encode_output(key, output)


def read_fingerprint(rows: Rows) -> dict[str, str] | None:
    """The stored fingerprint's fields, or None before the first event."""
    value = rows.get(FINGERPRINT)
    return None if value is None else formats.decode_fingerprint(FINGERPRINT, value)


def put_fingerprint(pending: Pending, fingerprint: Fingerprint) -> None:
    """Write the partition's fingerprint, with its first rows."""
    pending[FINGERPRINT] = formats.encode_fingerprint(FINGERPRINT, fingerprint.fields())


def check_fingerprint(rows: Rows, fingerprint: Fingerprint) -> bool:
    """True if the partition has this fingerprint; False if it has no rows yet.

    Raises FingerprintMismatch for another one, IncompleteState for rows without one.
    """
    stored = read_fingerprint(rows)
    if stored is None:
        if read_applied(rows) is None:
            return False
        raise IncompleteState
    refuse_other(stored, fingerprint)
    return True


def refuse_other(
    stored: Mapping[str, str], fingerprint: Fingerprint, whose: str = "the stored state"
) -> None:
    """Raise FingerprintMismatch if the stored fields differ; `whose` begins its message."""
    configured = {"weigh": "reviews", **fingerprint.fields()}
    stored = {"weigh": "reviews", **stored}
    names = [*configured, *(name for name in stored if name not in configured)]
    differences = {
        name: (stored.get(name), configured.get(name))
        for name in names
        if stored.get(name) != configured.get(name)
    }
    if differences:
        raise FingerprintMismatch(differences, whose)


def read_criteria(rows: Rows) -> FacetCriteria | None:
    """The partition's facets with the vectors of their phrases, or None if it has none."""
    value = rows.get(CRITERIA)
    return None if value is None else formats.decode_criteria(CRITERIA, value)


def put_criteria(pending: Pending, facets: FacetCriteria) -> None:
    """Write the partition's facets, with its first rows."""
    pending[CRITERIA] = formats.encode_criteria(CRITERIA, facets)


def read_min_changes(rows: Rows) -> int:
    """The highest COVERSUMM_EMIT_MIN_CHANGES under which the partition was processed, as far as it
    is recorded: an entity without an event since then may differ so much from its published sets.
    """
    value = rows.get(MIN_CHANGES)
    return 1 if value is None else formats.decode_min_changes(MIN_CHANGES, value)


def put_min_changes(pending: Pending, number: int) -> None:
    """Write what `read_min_changes` returns."""
    pending[MIN_CHANGES] = formats.encode_min_changes(MIN_CHANGES, number)


def put_garbage(pending: Pending, entity: bytes, incarnation: int) -> None:
    """Note that all rows of this incarnation are to be removed."""
    key = garbage_key(entity, incarnation)
    pending[key] = formats.seal(key, b"")


def collect_garbage(rows: Rows, pending: Pending, limit: int = GARBAGE_ROWS) -> bool:
    """Remove up to `limit` rows of deleted incarnations and their notes; True if any are left."""
    for key, value in rows.scan(GARBAGE):
        formats.unseal(key, value)
        if limit <= 0:
            return True
        prefix = incarnation_prefix(*parse_garbage_key(key))
        doomed = [row for row, _ in islice(rows.scan(prefix), limit)]
        pending.update(dict.fromkeys(doomed))
        limit -= len(doomed) + 1
        if limit < 0:
            return True
        pending[key] = None
    return False


def put_last_change(
    pending: Pending, entity: bytes, topic: OutputTopic, change: LastChange | None
) -> None:
    """Write the entity's last change of the topic, or remove it."""
    key = last_change_key(entity, topic)
    pending[key] = None if change is None else formats.encode_last_change(key, change)


def read_last_change(rows: Rows, entity: bytes, topic: OutputTopic) -> LastChange | None:
    """The entity's unpublished last change of the topic, or None."""
    key = last_change_key(entity, topic)
    value = rows.get(key)
    return None if value is None else formats.decode_last_change(key, topic, value)


def last_changes(rows: Rows, after: bytes | None = None) -> Iterator[tuple[bytes, LastChange]]:
    """The unpublished last changes of summaries with their entities, in key order, from behind the
    entity `after`.

    Raises CorruptRow.
    """
    start = None if after is None else last_change_key(after) + b"\0"
    for key, value in rows.scan(LAST_CHANGE, start):
        yield entity_of_last_change(key), formats.decode_last_change(key, SUMMARIES, value)
