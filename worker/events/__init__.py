"""Typed events: codecs, the contract's rules, and the messages that the worker sends.

bytes -> codec -> body -> rules -> event     `decode`, `codec`, `rules`
summary -> codec -> message                  `messages`
"""

from worker.events.bare import read_line
from worker.events.decode import RecordMapping, decode
from worker.events.inputs import (
    EVENT_TYPES,
    EntityDeleted,
    Event,
    GivenSentence,
    Record,
    ReviewDeleted,
    ReviewDetails,
    ReviewUpserted,
    SentencesDeleted,
)
from worker.events.messages import (
    TRUNCATED_HEADERS,
    Message,
    change_message,
    dead_letter_message,
    tombstone_message,
)
from worker.events.outputs import (
    ALGORITHM,
    Cause,
    FacetsChanged,
    FacetSummary,
    LastFacets,
    RankedChange,
    SummaryChanged,
    SummarySentence,
    summary_sentence,
)
from worker.events.ratings import RatingCounts, Ratings
from worker.events.reasons import Ignored, Reason, Rejected
from worker.events.rules import Limits

__all__ = [
    "ALGORITHM",
    "EVENT_TYPES",
    "TRUNCATED_HEADERS",
    "Cause",
    "EntityDeleted",
    "Event",
    "FacetSummary",
    "FacetsChanged",
    "GivenSentence",
    "Ignored",
    "LastFacets",
    "Limits",
    "Message",
    "RankedChange",
    "RatingCounts",
    "Ratings",
    "Reason",
    "Record",
    "RecordMapping",
    "Rejected",
    "ReviewDeleted",
    "ReviewDetails",
    "ReviewUpserted",
    "SentencesDeleted",
    "SummaryChanged",
    "SummarySentence",
    "change_message",
    "dead_letter_message",
    "decode",
    "read_line",
    "summary_sentence",
    "tombstone_message",
]
