"""CSV and TSV give what the same reviews give as JSON lines; what is no row is told, not
guessed.
"""

import csv
import io
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.errors import SetupError
from worker.events import Record
from worker.sources import Faulty, ReviewFiles, parse_fields
from worker.sources.columns import rows

FIELDS = {
    "entity_id": "asin",
    "review_id": "id",
    "text": "body",
    "rating": "stars",
    "occurred_at": "when",
}


def entries(content, name="given.csv", fields=None):
    with TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        with ReviewFiles([str(path)], fields or {}) as reviews:
            return list(reviews), reviews.left_out


def values(found):
    """The events, null being the same as absent."""
    events = [json.loads(entry.value) for entry in found]
    return [{name: value for name, value in event.items() if value is not None} for event in events]


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)
reviews = st.fixed_dictionaries(
    {
        "asin": words.filter(str.strip),
        "id": words,
        "body": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")),
        "stars": st.none() | st.integers(0, 10) | st.floats(0, 5, width=16),
        "when": st.none()
        | st.sampled_from(["2019-03-04", "March 4, 2019", "03/04/2019", "1551708306"]),
        "unused": words,
    }
)


@given(st.lists(reviews, min_size=1), st.sampled_from(",;|"), st.sampled_from(["\n", "\r\n"]))
def test_csv_and_json_lines_of_the_same_reviews_are_the_same_events(
    given_reviews, delimiter, ending
):
    table = io.StringIO()
    writer = csv.DictWriter(
        table, list(given_reviews[0]), delimiter=delimiter, lineterminator=ending
    )
    writer.writeheader()
    writer.writerows(given_reviews)
    of_csv, left_out_of_csv = entries(table.getvalue().encode(), fields=FIELDS)
    lines = "".join(json.dumps(review) + "\n" for review in given_reviews)
    of_json, left_out_of_json = entries(lines.encode(), "given.jsonl", FIELDS)
    assert values(of_csv) == values(of_json)
    assert [record.key for record in of_csv] == [record.key for record in of_json]
    assert {name: one.count for name, one in left_out_of_csv.items()} == {
        name: one.count for name, one in left_out_of_json.items()
    }
    offsets = [record.offset for record in of_csv]
    assert offsets == sorted(set(offsets))


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        (b"e,1", "2 cells, the header has 3"),
        (b"e,1,a,b", "4 cells, the header has 3"),
        (b'e,1,"a" b', "a quote too many"),
        (b"e,1,sch\xf6n", "not UTF-8"),
        (b'e,1,"never closed', "one that is never closed"),
    ],
)
def test_what_is_no_row_is_told_with_its_line(row, detail):
    is_last = b"never" in row
    found, _ = entries(
        b"entity_id,review_id,text\ne,0,a\n" + row + (b"\n" if is_last else b"\ne,2,b\n")
    )
    bad = [entry for entry in found if isinstance(entry, Faulty)]
    assert [(entry.line, entry.reason) for entry in bad] == [(3, "bad_row")]
    assert detail in bad[0].detail
    good = [entry for entry in found if isinstance(entry, Record)]
    assert [record.offset for record in good] == ([1] if is_last else [1, 3])


def test_tsv_is_not_quoted_but_a_quoted_cell_is_unquoted():
    table = (
        b'entity_id\treview_id\ttext\ne\t1\t"Great" they said\ne\t2\t"say ""yes"""\ne\t3\t"open\n'
    )
    found, _ = entries(table, "given.tsv")
    assert [value["text"] for value in values(found)] == ['"Great" they said', 'say "yes"', '"open']


def test_an_empty_cell_is_no_value_but_an_empty_text_is_one_and_is_reported():
    table = b"entity_id,review_id,text,rating,created_at\ne,0,Good.,,\ne,1,,,\ne,2, ,,\n"
    (_, *found), left_out = entries(table)
    found.pop()
    assert values(found) == [
        {"type": "review.upserted", "entity_id": "e", "review_id": "1", "text": ""}
    ]
    assert (left_out["text"].count, left_out["text"].first_line) == (2, 3)


def test_what_is_left_out_is_counted_with_its_first_line():
    table = (
        b"entity_id,review_id,text,rating,occurred_at\ne,1,a,5,2019-03-04\n"
        b"e,2,b,*****,03/04/2019\ne,3,c,4.5,04/04/2019\n"
    )
    found, left_out = entries(table)
    assert [(value.get("rating"), value.get("occurred_at")) for value in values(found)] == [
        (5, "2019-03-04T00:00:00Z"),
        (None, None),
        (4.5, None),
    ]
    told = {field: (one.count, one.first_line, one.first_value) for field, one in left_out.items()}
    assert told == {"rating": (1, 3, "*****"), "occurred_at": (2, 3, "03/04/2019")}


@pytest.mark.parametrize(
    ("header", "fields", "told"),
    [
        (
            b"asin,id,body",
            {},
            "say which is which: --fields entity_id=COLUMN,review_id=COLUMN,text=COLUMN",
        ),
        (b"entity_id,id,text", {}, "--fields review_id=COLUMN"),
        (
            b"asin,id,body",
            {"entity_id": "sin"},
            "has no column sin (for entity_id); it has asin, id, body",
        ),
        (b"entity_id,text,review_id,text", {}, "has the column text twice"),
    ],
)
def test_columns_that_are_missing_are_named(header, fields, told):
    with pytest.raises(SetupError) as raised:
        entries(header + b"\n1,2,3,4\n", fields=fields)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("given_fields", "told"),
    [
        ("entity_id", "'entity_id' is not FIELD=COLUMN"),
        ("entity_id=", "is not FIELD=COLUMN"),
        ("entity=asin", "did you mean entity_id?"),
        ("text=a,text=b", "text is given twice"),
        ("review_version=v", "is not a field of a review"),
    ],
)
def test_fields_that_are_none(given_fields, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_fields([given_fields])


@given(st.binary(), st.sampled_from(",\t"))
def test_any_bytes_are_rows_or_faults(content, delimiter):
    for row in rows(iter(io.BytesIO(content)), delimiter):
        assert row.line >= 1
