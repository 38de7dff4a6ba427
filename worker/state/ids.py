"""Sentence ids: `review_id#ordinal` in UTF-8. A review id may hold any character, so the last `#` is the mark."""


def sentence_id(review_id: bytes, ordinal: int) -> bytes:
    """The id of a review's sentence at this position, from 0."""
    return b"%b#%d" % (review_id, ordinal)


def review_of(identifier: bytes) -> bytes:
    """The review id in an id that `sentence_id` made."""
    return identifier.rpartition(b"#")[0]


def parse_sentence_id(identifier: bytes) -> tuple[bytes, int] | None:
    """`(review id, ordinal)` of an id from anywhere; None where `sentence_id` makes no such id."""
    review_id, mark, digits = identifier.rpartition(b"#")
    if not mark or not digits.isdigit() or (digits[:1] == b"0" and digits != b"0"):
        return None
    return review_id, int(digits)
