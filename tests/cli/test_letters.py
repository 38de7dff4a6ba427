"""A dead letter as its topic holds it, against what the worker writes; and which letters
are meant.
"""

from types import SimpleNamespace

import pytest

from worker.events import Reason, Record, Rejected, dead_letter_message
from worker.events.messages import TRUNCATED_BYTES
from worker.kafka.reader import Stored
from worker.operations.letters import (
    DeadLetter,
    Impossible,
    LetterOrigin,
    LetterSelection,
    Place,
    original,
)

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
        "attempts": 0,
    }
    assert letter().source == LetterOrigin("reviews", 3, 991)


def test_attempts_are_counted_from_letter_to_letter():
    """Also beside another number that a producer or an earlier attempt has written."""
    again = letter().again(RECORD._replace(headers=(("a", b""), ("dlq.attempts", b"7"))))
    assert again.headers == (("a", b""), ("dlq.attempts", b"1"))
    second = letter(again)
    assert (second.attempts, second.own_headers) == (1, (("a", b""),))
    assert [second in LetterSelection(max_attempts=most) for most in (1, 2)] == [False, True]
    for strange in (b"-1", b"9" * 20, None):
        assert letter(RECORD._replace(headers=(("dlq.attempts", strange),))).attempts == 0


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
    assert cut.difference(long) is None


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
    assert letter(long, max_bytes=200_000).difference(long._replace(**other)) in other


def test_a_cut_key_is_compared_by_its_beginning():
    record = RECORD._replace(key=b"k" * 300_000)
    cut = letter(record, max_bytes=200_000)
    assert len(cut.key) == TRUNCATED_BYTES
    assert cut.truncated
    assert cut.difference(record) is None
    assert cut.difference(record._replace(key=b"k" * 300_001)) == "key"


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


LONG = RECORD._replace(value=b"v" * 300_000)


def topic(*records: Record, name: str = "reviews"):
    """The input topic as a reader of it finds it, with partitions 0 to 3; the first record after an
    offset is read.
    """

    def read(partition: int, start: int, end: int):
        return (Stored(r, {}) for r in records if r.partition == partition and r.offset >= start)

    return SimpleNamespace(topic=name, partitions=[0, 1, 2, 3], read=read)


def test_a_whole_letter_is_its_own_original():
    assert original(letter(LONG), topic()) == LONG._replace(timestamp_ms=5000)


def test_an_original_has_the_headers_that_its_mapping_read():
    mapped = LONG._replace(headers=(("ce_type", b"com.shop.review"), ("review", b"")))
    assert original(letter(mapped), topic()).headers == mapped.headers
    assert original(letter(mapped, max_bytes=200_000), topic(LONG)) == mapped


def test_a_cut_letter_is_read_from_its_source():
    assert original(letter(LONG, max_bytes=200_000), topic(LONG)) == LONG


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ((), "its original at reviews/3/991 is gone"),
        ((LONG._replace(offset=992),), "its original at reviews/3/991 is gone"),
        (
            (LONG._replace(value=b"w"),),
            "another value .reviews/3/991.: the topic was created again",
        ),
    ],
)
def test_a_cut_letter_whose_original_is_not_there_cannot_be_sent(
    found: tuple[Record, ...], why: str
):
    with pytest.raises(Impossible, match=why):
        original(letter(LONG, max_bytes=200_000), topic(*found))


@pytest.mark.parametrize(
    ("foreign", "input_topic", "why"),
    [
        (DeadLetter.of(Stored(LONG, {})), topic(), "headers do not say where it came from"),
        (letter(LONG), topic(name="others"), "it came from reviews, the input topic is others"),
        (letter(LONG._replace(partition=4)), topic(), "reviews has no partition 4"),
    ],
)
def test_a_letter_from_elsewhere_cannot_be_sent(foreign: DeadLetter, input_topic, why: str):
    with pytest.raises(Impossible, match=why):
        original(foreign, input_topic)
