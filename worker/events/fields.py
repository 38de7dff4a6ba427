"""The types of fields that events share: constraints, and their text in the JSON Schemas."""

from __future__ import annotations

import re
from calendar import monthrange
from typing import Annotated, Final

from msgspec import Meta, Raw

MAX_ID_CHARS: Final = 1024
"""Longest entity or review id, in characters (up to 4 KiB of UTF-8). A summary of 20 sentences with
the longest ids and texts, every character escaped, still fits into Kafka's default message size of
1 MiB.
"""

MAX_SENTENCE_ID_CHARS: Final = MAX_ID_CHARS + 20  # a review id, `#` and a position

MAX_VERSION: Final = 2**63 - 1
MAX_TIMESTAMP_CHARS: Final = 64

# RFC 3339 date-time. `[0-9]`, because Python's \d takes the digits of every script; `$(?!\n)`,
# because Python's `$` also matches before a final newline while that of JSON Schema (ECMA 262) does
# not. Days beyond a month's end: `is_day`.
TIMESTAMP_PATTERN: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$(?!\n)"
)
BASE64_PATTERN: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)"

EntityId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="The product, hotel or seller. Any characters; equal to the Kafka key (UTF-8).",
        examples=["B00IOY8XWQ"],
    ),
]
ReviewId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID_CHARS,
        description="The review, unique within its entity. Any characters.",
        examples=["r-81"],
    ),
]
SentenceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SENTENCE_ID_CHARS,
        description="`review_id#i`, i = the sentence's position in its review, from 0.",
        examples=["r-81#2"],
    ),
]
Version = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_VERSION,
        description="Version of the review, written without a fraction. An upsert applies if "
        "greater than the stored one, a deletion also if equal to the live one. Without, the order "
        "of arrival decides.",
        examples=[3],
    ),
]
Timestamp = Annotated[
    str,
    Meta(
        pattern=TIMESTAMP_PATTERN,
        max_length=MAX_TIMESTAMP_CHARS,
        description="When it happened, an RFC 3339 timestamp. Handed on unchanged.",
        examples=["2026-11-20T12:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
MAX_LANGUAGE_CHARS: Final = 35
"""Longest language tag that summaries pass on: RFC 5646 makes none longer necessary."""

Language = Annotated[str, Meta(min_length=1, max_length=MAX_LANGUAGE_CHARS, examples=["en"])]
LanguageCode = Annotated[
    str, Meta(pattern="^[a-z]{2,8}$", description="A primary subtag.", examples=["en"])
]
MAX_COUNTRY_BYTES: Final = 48
MAX_AUTHOR_BYTES: Final = 128
"""Most bytes, as JSON writes it without its quotes, of a country and an author that summaries pass
on. In bytes, so that the default COVERSUMM_MAX_MESSAGE_BYTES has room for as many sentences as
before.
"""

Country = Annotated[str, Meta(min_length=1, max_length=MAX_COUNTRY_BYTES, examples=["NL"])]
AuthorId = Annotated[str, Meta(min_length=1, max_length=MAX_AUTHOR_BYTES, examples=["u-4711"])]
Rating = Annotated[float, Meta(description="The reviewer's rating, on any scale.", examples=[4.0])]
Numbers = Annotated[
    list[float], Meta(description="The vector, not all zero; the worker normalises it.")
]
Float32Base64 = Annotated[
    bytes,
    Meta(
        description="The vector as little-endian float32 in base64 with padding: a fifth of the "
        "bytes.",
        extra_json_schema={"pattern": BASE64_PATTERN},
    ),
]

Labels = Annotated[
    Raw,
    Meta(
        description="Labels of facets (COVERSUMM_FACETS) that the sentence belongs to. Checked "
        "only where facets have labels.",
        examples=[["price"]],
        extra_json_schema={"type": "array", "items": {"type": "string"}},
    ),
]

EmbeddingModel = Annotated[
    str,
    Meta(
        description="Model that made the embeddings; must be the worker's.",
        examples=["sentence-transformers/all-MiniLM-L6-v2"],
    ),
]


_matches: Final = re.compile(TIMESTAMP_PATTERN).match


def is_timestamp(text: str) -> bool:
    """True if `text` is an RFC 3339 timestamp of a day that exists."""
    return _matches(text) is not None and is_day(text)


def is_day(timestamp: str) -> bool:
    """True if the day of a timestamp exists: the pattern accepts days up to 31 in every month."""
    if timestamp[8:10] <= "28":
        return True
    year, month, day = int(timestamp[:4]), int(timestamp[5:7]), int(timestamp[8:10])
    # The calendar module knows no year 0, which is a leap year.
    return day <= monthrange(year or 4, month)[1]
