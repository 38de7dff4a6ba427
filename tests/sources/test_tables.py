"""CSV and TSV give what the same reviews give as JSON lines; a broken row is reported, not
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
from worker.events.json_codec import decode as decode_json
from worker.events.reasons import BadEvent
from worker.sources import Faulty, ReviewFiles, columns, parse_fields

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


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")).filter(
    lambda text: text not in ("NULL", r"\N")  # a table cannot tell these from no value
)
words = texts.filter(bool)
reviews = st.fixed_dictionaries(
    {
        "asin": words.filter(str.strip),
        "id": words,
        "body": texts,
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
    assert {name: left.count for name, left in left_out_of_csv.items()} == {
        name: left.count for name, left in left_out_of_json.items()
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


def test_lines_that_an_open_quote_swallows_are_counted_and_named():
    table = (
        b"entity_id,review_id,text\ne,0,a\n"
        b'e,1,"open\ne,2,b\ne,3,c\ne,4,"Quoted, well."\ne,5,d\ne,6,"open again\ne,7,f\n'
    )
    found, _ = entries(table)
    bad = [
        (faulty.line, faulty.lines, faulty.detail[:30])
        for faulty in found
        if isinstance(faulty, Faulty)
    ]
    assert bad == [
        (3, 4, "lines 3 to 6 are skipped: ',' "),
        (8, 2, "lines 8 to 9 are skipped: unex"),
    ]
    assert [record.offset for record in found if isinstance(record, Record)] == [1, 6]


@pytest.mark.parametrize("cells", [1, 3])
def test_a_row_has_a_bound_although_its_lines_and_cells_have_none(monkeypatch, cells):
    monkeypatch.setattr(columns, "MOST_CHARS", 1000)
    monkeypatch.setattr(columns.csv, "field_size_limit", lambda _: None)
    inside = b'","'.join([b"x\n" * 1000] * cells)
    table = b'entity_id,review_id,text\ne,1,"' + inside + b'"\ne,2,b\n'
    found, _ = entries(table)
    assert isinstance(found[0], Faulty)
    assert found[0].detail.startswith("lines 2 to 499 are skipped: more than 1,000 characters")
    assert sum(record.lines for record in found) == table.count(b"\n") - 1


@pytest.mark.parametrize(
    "again",
    [
        "entity_id,review_id,text\n",
        "\ufeffentity_id,review_id,text\n",
        '"entity_id","review_id","text"\n',
    ],
)
def test_a_header_within_a_table_is_no_review(again):
    table = f"entity_id,review_id,text\ne,1,a\n{again}e,2,b\ntext,entity_id,review_id\nc,e,3\n"
    found, left_out = entries(table.encode())
    assert [(row["review_id"], row["text"]) for row in values(found)] == [
        *(("1", "a"), ("2", "b"), ("3", "c"))
    ]
    assert (left_out["header"].first_line, left_out["header"].count) == (3, 2)


@pytest.mark.parametrize("name", ["given.csv", "given.tsv"])
def test_null_of_a_database_is_no_value_and_that_of_a_person_is_one(name):
    rows = ["entity_id,review_id,text,rating,created_at", "e,1,NULL,NULL,NULL", "e,2,\\N,4,\\N"]
    rows += ["e,3,null,5,", "e,4,NULL and void,5,", "NULL,5,a,5,"]
    text = "\n".join(rows).replace(",", "\t" if name.endswith("tsv") else ",")
    found, left_out = entries(text.encode(), name)
    assert [(row.get("entity_id"), row["text"], row.get("rating")) for row in values(found)] == [
        ("e", "", None),
        ("e", "", 4),
        ("e", "null", 5),
        ("e", "NULL and void", 5),
        (None, "a", 5),
    ]
    assert set(left_out) == {"text"}


@pytest.mark.parametrize("mark", ["sep=;\r\n", "SEP=;\n", '"sep=;"\n', "\ufeffsep=;\n"])
def test_a_line_for_excel_names_the_separator(mark):
    table = f"{mark}entity_id;review_id;text,or not\n1,5;2;a, b, c\n;;\n".replace(",or not", "")
    found, _ = entries(table.encode(), "given")
    assert [(record.offset, json.loads(record.value)["text"]) for record in found] == [
        (2, "a, b, c")
    ]


def test_blanks_after_the_separators_of_the_header_are_none_of_a_cell():
    table = b'entity_id, review_id, text\ne, 1, "a, b"\ne, 2, c\n'
    found, _ = entries(table)
    assert [(row["review_id"], row["text"]) for row in values(found)] == [("1", "a, b"), ("2", "c")]
    assert values(
        entries(table.replace(b"entity_id, review_id, text", b"entity_id,review_id,text"))[0][-1:]
    ) == [{"type": "review.upserted", "entity_id": "e", "review_id": " 2", "text": " c"}]


@pytest.mark.parametrize("given", [{}, {"unescape": "yes"}])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_backslash_and_an_n_are_a_line_break_where_that_is_said(form, given):
    text = r"Clean.\nA \"kind\" host, C:\\new." if given else r"Clean.\nKind."
    content = json.dumps({"entity_id": "e", "review_id": "1", "text": text})
    if form == "csv":
        quoted = text.replace('"', '""')
        content = f'entity_id,review_id,text\ne,1,"{quoted}"\n'
    found, left_out = entries(content.encode(), f"given.{form}", given)
    expected = 'Clean.\nA "kind" host, C:\\new.' if given else text
    assert [row["text"] for row in values(found)] == [expected]
    assert left_out.keys() == (set() if given else {"line breaks"})


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
    facts = {
        field: (field_left.count, field_left.first_line, field_left.first_value)
        for field, field_left in left_out.items()
    }
    assert facts == {"rating": (1, 3, "*****"), "occurred_at": (2, 3, "03/04/2019")}


@pytest.mark.parametrize(
    ("header", "fields", "message"),
    [
        (b"asin,id,body", {},
         "say which is which: --fields entity_id=COLUMN,review_id=COLUMN,text=COLUMN"),
        (b"entity_id,id,text", {}, "--fields review_id=COLUMN"),
        (b"asin,id,body", {"entity_id": "sin"},
         "has no column sin (for entity_id); it has asin, id, body"),
        (b"entity_id,text,review_id,text", {}, "has the column text twice"),
        (b"entity_id,text,review_id,country,country", {}, "has the column country twice"),
    ],
)  # fmt: skip
def test_columns_that_are_missing_are_named(header, fields, message):
    with pytest.raises(SetupError) as raised:
        entries(header + b"\n1,2,3,4\n", fields=fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("given_fields", "message"),
    [
        ("entity_id", "'entity_id' is not FIELD=COLUMN"),
        ("entity_id=", "is not FIELD=COLUMN"),
        ("entity=asin", "did you mean entity_id?"),
        ("text=a,text=b", "text is given twice"),
        ("text=a,review_id", "'review_id' is not FIELD=COLUMN"),
        ("text=a,", "'' is not FIELD=COLUMN"),
        ("review_version=v", "is not a field of a review"),
    ],
)
def test_fields_that_are_none(given_fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_fields([given_fields])


def test_columns_may_have_commas_in_their_names():
    given_fields = ["entity_id=hotel, name,review_id=id", "text=review, body, in English"]
    fields = parse_fields(given_fields)
    assert fields == {
        "entity_id": "hotel, name",
        "review_id": "id",
        "text": "review, body, in English",
    }
    found, _ = entries(b'"hotel, name",id,"review, body, in English"\ne,1,a\n', fields=fields)
    assert [row["text"] for row in values(found)] == ["a"]


def test_rows_of_another_state_are_skipped_and_counted():
    """Deleted rows of a table would be in a newcomer's first summary."""
    table = b"entity_id,review_id,text,state\n" + b"".join(
        b"e,%d,Good.,%s\n" % (number, state)
        for number, state in enumerate([b"APPROVED", b"DELETED", b"EDITED", b""])
    )
    for wanted, kept in (("APPROVED", "0"), ("APPROVED|EDITED", "02"), ("", "3"), ("x", "")):
        found, left_out = entries(table, fields={"where state": wanted})
        assert "".join(event["review_id"] for event in values(found)) == kept
        assert (left_out["where "].count, left_out["where "].first_line) == (
            4 - len(kept),
            2 if kept in ("3", "") else 3,
        )
    with pytest.raises(SetupError, match="has no column stat "):
        entries(table, fields={"where stat": "x"})
    lines = b'{"entity_id":"e","review_id":1,"text":"a","d":{"gone":false}}\n' + (
        b'{"entity_id":"e","review_id":2,"text":"a","d":{"gone":true}}\n'
        b'{"type":"entity.deleted","entity_id":"e"}\n'
    )
    found, _ = entries(lines, "given.jsonl", {"where d.gone": "false"})
    assert [event.get("review_id") for event in values(found)] == ["1", None]


def test_a_column_without_a_name_is_called_by_its_number():
    """pandas writes its index so."""
    table = b",asin,text\n7,e,Good.\n"
    found, _ = entries(table, fields={"entity_id": "asin", "review_id": "#1"})
    assert [event["review_id"] for event in values(found)] == ["7"]
    with pytest.raises(SetupError, match="has no column #2 "):
        entries(table, fields={"entity_id": "asin", "review_id": "#2"})


def test_an_id_may_be_of_two_columns_or_at_a_path():
    fields = {"entity_id": "shop+sku", "review_id": "_id.$oid"}
    table = b"shop,sku,a.b+c,text\nde,7,x,Good.\nde,,x,Bad.\n"
    found, _ = entries(table, fields={**fields, "review_id": "a.b+c"})
    first, second = values(found)
    assert (first["entity_id"], first["review_id"]) == ("de-7", "x")
    assert "entity_id" not in second
    line = {"shop": "de", "sku": 7.0, "_id": {"$oid": "66b2"}, "text": "Good."}
    found, _ = entries(json.dumps(line).encode(), "given.jsonl", fields)
    assert values(found) == [
        {"type": "review.upserted", "entity_id": "de-7", "review_id": "66b2", "text": "Good."}
    ]
    with pytest.raises(SetupError, match="has no column sk "):
        entries(table, fields={**fields, "entity_id": "shop+sk"})


def test_a_date_of_a_form_of_its_own_is_read():
    table = b"entity_id,review_id,text,occurred_at\ne,1,Good.,10.01.2025 07:33\n"
    _, left_out = entries(table)
    assert left_out["occurred_at"].first_value == "10.01.2025 07:33"
    found, left_out = entries(table, fields={"dates": "%d.%m.%Y %H:%M"})
    assert values(found)[0]["occurred_at"] == "2025-01-10T07:33:00Z"
    assert left_out == {}


def test_half_of_a_character_of_utf_16_is_named():
    table = "entity_id,review_id,text\ne,1,Good\ne,2,\N{SLICE OF PIZZA}\n".encode("utf-16-le")
    at = table.index("\N{SLICE OF PIZZA}".encode("utf-16-le"))
    found, _ = entries(b"\xff\xfe" + table[:at] + table[at + 2 :])
    assert found[1].detail == "half of a UTF-16 character"
    line = '{"entity_id":"e","review_id":"1","text":"'.encode("utf-16-le")
    found, _ = entries(b"\xff\xfe" + line + b"\x55\xdf" + '"}'.encode("utf-16-le"), "g.jsonl")
    with pytest.raises(BadEvent, match="not UTF-8, half of a UTF-16 character"):
        decode_json(found[0].value)
