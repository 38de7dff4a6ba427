"""Why a record is rejected, or a valid event has no effect."""

from enum import StrEnum
from typing import NamedTuple

from worker.limits import Limit


class Reason(StrEnum):
    """Why a record became a dead letter."""

    BAD_JSON = "bad_json"
    BAD_WIRE_FORMAT = "bad_wire_format"
    NO_KEY = "no_key"
    KEY_MISMATCH = "key_mismatch"
    UNKNOWN_TYPE = "unknown_type"
    BAD_FIELD = "bad_field"
    WRONG_DIMENSION = "wrong_dimension"
    BAD_VECTOR = "bad_vector"
    WRONG_MODEL = "wrong_model"
    NO_EMBEDDING = "no_embedding"
    TEXT_TOO_LONG = "text_too_long"
    TOO_MANY_SENTENCES = "too_many_sentences"
    TOO_LARGE = "too_large"
    ENTITY_FULL = "entity_full"
    SKIPPED = "skipped"  # by an operator
    INTERNAL_ERROR = "internal_error"  # a fault of the worker, not of the record


class Ignored(StrEnum):
    """Why a valid event had no effect."""

    NOT_NEWER = "not_newer"
    UNKNOWN_ENTITY = "unknown_entity"
    UNKNOWN_SENTENCE = "unknown_sentence"
    ALREADY_APPLIED = "already_applied"
    NOT_SELECTED = "not_selected"  # by a replay of part of the history
    BY_MAPPING = "by_mapping"  # a rule of the mapping says so


class Rejected(NamedTuple):
    """A record that becomes a dead letter.

    `detail` is one line for people and names the field; `limit` is the exceeded limit, if any.
    """

    reason: Reason
    detail: str
    limit: Limit | None = None

    def under(self, where: str) -> "Rejected":
        """The same with words for its place before the detail."""
        return self._replace(detail=f"{where}{self.detail}")


class BadEvent(Exception):
    """Raised by the first failing check of a record; `decode` returns its `rejected`."""

    def __init__(self, reason: Reason, detail: str, limit: Limit | None = None) -> None:
        self.rejected = Rejected(reason, detail, limit)

    def under(self, where: str) -> "BadEvent":
        """The same with words for its place before the detail."""
        return BadEvent(*self.rejected.under(where))


def place_of(number: int, entity_id: str) -> str:
    """Words for the place of one of several events of a record."""
    return f"event {number} (entity_id {shown(entity_id.encode())}): "


def shown(raw: bytes) -> str:
    """`raw` for a detail: readable, one line, truncated."""
    text = ascii(raw.decode(errors="backslashreplace"))
    return text if len(text) <= 80 else f"{text[:80]}... ({len(raw)} bytes)"
