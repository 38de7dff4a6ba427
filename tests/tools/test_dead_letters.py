"""A dead letter as its topic holds it, against what the worker writes; and which letters
are meant.
"""

import pytest

from worker.events import Reason, Record, Rejected, dead_letter_message
from worker.events.messages import TRUNCATED_BYTES
from worker.kafka.reader import Stored
from worker.tools.dlq import DeadLetter, LetterOrigin, LetterSelection, NotTheOriginal, Place

RECORD = Record("reviews", 3, 991, 1_700_000_000_000, b"entity", b"not json")


def letter(
    record=RECORD, reason=Reason.BAD_JSON, place=(3, 7), max_bytes=1_000_000, timestamp_ms=5000
):
    """As the worker writes it, and as it is read back."""
    message = dead_letter_message("dlq", record, Rejected(reason, "detail"), "1.0", max_bytes)
    stored = Record("dlq", *place, timestamp_ms, message.key, message.value)
    return DeadLetter.of(Stored(stored, dict(message.headers)))


def test_what_is_in_one():
    assert letter().describe() == {
        "partition": 3,
        "offset": 7,
        "time": "1970-01-01T00:00:05.000Z",
        "reason": "bad_json",
        "detail": "detail",
        "source": "reviews/3/991",
        "key": "entity",
        "bytes": 8,
        "truncated": False,
    }
    assert letter().source == LetterOrigin("reviews", 3, 991)


def test_a_message_of_somebody_else_has_no_source():
    other = DeadLetter.of(Stored(RECORD, {"dlq.source.partition": b"x"}))
    assert other.source is None
    assert other.reason == ""


def test_a_cut_value_knows_its_length_and_its_original():
    long = RECORD._replace(value=b"v" * 300_000)
    cut = letter(long, max_bytes=200_000)
    assert cut.truncated
    assert len(cut.value) == TRUNCATED_BYTES
    assert cut.original_bytes == 300_000
    cut.check_original(long)


@pytest.mark.parametrize(
    "other",
    [
        {"value": b"v" * 299_999},
        {"value": b"w" + b"v" * 299_999},
        {"value": None},
        {"key": b"other"},
        {"key": None},
    ],
)
def test_another_record_is_not_the_original(other):
    long = RECORD._replace(value=b"v" * 300_000)
    with pytest.raises(NotTheOriginal):
        letter(long, max_bytes=200_000).check_original(long._replace(**other))


def test_a_cut_key_is_compared_by_its_beginning():
    record = RECORD._replace(key=b"k" * 300_000)
    cut = letter(record, max_bytes=200_000)
    assert len(cut.key) == TRUNCATED_BYTES
    assert cut.truncated
    cut.check_original(record)
    with pytest.raises(NotTheOriginal):
        cut.check_original(record._replace(key=b"k" * 300_001))


@pytest.mark.parametrize(
    ("selection", "meant"),
    [
        (LetterSelection(), True),
        (LetterSelection(reasons=frozenset({"bad_json", "no_key"})), True),
        (LetterSelection(reasons=frozenset({"no_key"})), False),
        (LetterSelection(entity_id="entity"), True),
        (LetterSelection(entity_id="entit"), False),
        (LetterSelection(since_ms=5000), True),
        (LetterSelection(since_ms=5001), False),
        (LetterSelection(places=frozenset({Place(3, 7)})), True),
        (LetterSelection(places=frozenset({Place(7, 3)})), False),
        (LetterSelection(reasons=frozenset({"bad_json"}), entity_id="other"), False),
    ],
)
def test_selection(selection, meant):
    assert (letter() in selection) == meant


def test_the_span_of_a_selection():
    named = LetterSelection(places=frozenset({Place(1, 5), Place(1, 9), Place(2, 1)}))
    assert named.span(1) == range(5, 10)
    assert named.span(0) == range(0)
    assert LetterSelection().span(0) is None
