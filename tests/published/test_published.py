"""What a message or a line of a file is, and which of one entity lie between two times."""

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.view.changes import body, facets_body
from worker.errors import SetupError
from worker.events import Record
from worker.events.publishing import FACETS, SUMMARIES
from worker.published.publication import publications
from worker.published.published import PublishedFile, TimeSpan

TEXTS = {"a#0": "Good."}
TIMES = [None, "0000-01-01T00:00:00Z", *(f"1970-01-01T00:00:0{second}Z" for second in range(1, 5))]


@pytest.fixture
def file(tmp_path):
    def file(*values, name="bodies.jsonl"):
        path = tmp_path / name
        data = b"\n".join(values)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return PublishedFile(str(path))

    return file


@pytest.mark.parametrize("name", ["bodies.jsonl", "bodies.jsonl.gz"])
def test_a_file_can_be_read_again_and_again(file, name):
    source = file(body("e", 1, TEXTS), b"", body("f", 2, {}), name=name)
    for _ in range(3):
        assert [(change.entity_id, change.offset, change.published_ms) for change in source] == [
            ("e", 0, -1),
            ("f", 2, -1),
        ]
    assert source.is_lasting
    assert [source.position for _ in source][-1] == source.size


@pytest.mark.parametrize(
    ("occurred_at", "wanted"),
    [("1970-01-01T00:00:01Z", 1000), (None, None), ("2026-02-31T00:00:00Z", None)],
)
def test_when_it_happened(occurred_at, wanted):
    value = body("e", 1, TEXTS, occurred_at=occurred_at)
    (found,) = publications(Record("t", 0, 0, 5, b"e", value))
    assert found.occurred_ms == wanted


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"e", b"[1]"), (b"e", b"{"), (b"", None), (None, body("e", 1, TEXTS)), (b"\xff", None),
     (b"e", b"\xff" * 9),
     (b"e", b'{"type":"review.upserted"}')],
)  # fmt: skip
def test_what_is_no_summary_change(key, value):
    with pytest.raises(
        SetupError, match=r"the message at offset 7 of t \[3\] is not a summary change"
    ):
        publications(Record("t", 3, 7, 0, key, value))


FACETS_BODY = facets_body("e", 1, {"parking": TEXTS, "noise": {}}, ["parking"])


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (FACETS_BODY, SUMMARIES, "of the other type, facets: ask with --facets"),
        (body("e", 1, TEXTS), FACETS, "of the other type, summaries: leave --facets out"),
        (b"{}", FACETS, r"not a facets change .* as COVERSUMM_FACETS_TOPIC does"),
    ],
)
def test_a_topic_of_the_other_type_is_named(value, kind, message):
    with pytest.raises(SetupError, match=message):
        publications(Record("t", 3, 7, 0, b"e", value), kind=kind)


def test_a_file_may_have_both_types(file):
    """As `summarize --facets` writes them."""
    source = file(body("e", 1, TEXTS), FACETS_BODY)
    assert [(change.offset, change.facet) for change in source] == [(0, None)]
    source.kind = FACETS
    assert [(change.offset, change.facet, change.is_changed) for change in source] == [
        (1, "parking", True),
        (1, "noise", False),
    ]
    assert [change.body.sentence_count for change in source.of("e")] == [10, 0]


@given(
    st.lists(st.sampled_from(TIMES), max_size=8),
    st.lists(st.integers(0, 6000), min_size=3, max_size=3),
)
def test_spans_of_a_file_are_neighbours(tmp_path_factory, times, moments):
    """What lies before a time and what lies from it on is together what lies between the
    outer two.
    """
    path = tmp_path_factory.mktemp("spans") / "bodies.jsonl"
    path.write_bytes(
        b"\n".join(body("e", i, TEXTS, occurred_at=time) for i, time in enumerate(times))
    )
    source = PublishedFile(str(path))

    def between(since, until):
        return [change.offset for change in source.of("e", TimeSpan(since, until))]

    first, middle, last = sorted(moments)
    assert between(first, last) == between(first, middle) + between(middle, last)
    assert between(None, middle) == [i for i in range(len(times)) if i not in between(middle, None)]
    for since, until in pairwise((None, middle, None)):
        assert all(
            middle <= change.occurred_ms
            for change in list(source.of("e", TimeSpan(since, until)))[:1]
            if since
        )
