"""The limits whose hits are counted in `coversumm_limit_hits_total`.

`docs/reference/limits.md` names the setting of each, and what happens beyond it.
"""

from enum import StrEnum


class Limit(StrEnum):
    """A limit whose hits are counted; the value is its label."""

    EVENT_BYTES = "event_bytes"
    TEXT_BYTES = "text_bytes"
    SENTENCE_CHARS = "sentence_chars"
    SENTENCES_PER_REVIEW = "sentences_per_review"
    SENTENCES_PER_DELETION = "sentences_per_deletion"
    SENTENCES_PER_ENTITY = "sentences_per_entity"
    MESSAGE_BYTES = "message_bytes"
    BATCH_EVENTS = "batch_events"
    BATCH_BYTES = "batch_bytes"
    BATCH_SENTENCES = "batch_sentences"
    BATCH_TIME = "batch_time"
    TRANSACTION_RECORDS = "transaction_records"
    TRANSACTION_BYTES = "transaction_bytes"
    IN_FLIGHT = "in_flight"
    CACHE_BYTES = "cache_bytes"
