"""docs/choosing.md says of the bundled sample what is true of it: sentences, ranks,
twins, changes.
"""

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.build.render import ROOT
from tests.bench.quality.copies import ADVERTS, PARAPHRASES
from tests.bench.tables import read_record
from worker.coversumm import Block, CoverSumm, Points, quantize
from worker.coversumm.short_view import choose, stands_for
from worker.text.embedders import load_engine
from worker.text.splitting import split_sentences

PAGE = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
SAMPLE = ROOT / "worker" / "demo" / "data" / "airbnb_albany.jsonl.gz"
STAY = "abnb:25549565"
COMPLAINT = re.compile(r"\b(noise|noisy|loud|dirty|smell\w*|stain\w*|broken)\b", re.I)


class Stay(NamedTuple):
    """The sentences of one stay by their ids, in order of arrival, and their vectors in the same
    order.
    """

    texts: Mapping[str, str]
    vectors: NDArray[np.float32]

    def core(self, k: int, *, distinct: bool = False) -> CoverSumm:
        """All sentences at once."""
        core = CoverSumm(k, self.vectors.shape[1], distinct=distinct)
        core.add_many(list(self.texts), self.vectors)
        return core

    def shown(self, k: int, *, distinct: bool = False) -> list[str]:
        """The texts of the summary."""
        return [self.texts[one.id] for one in self.core(k, distinct=distinct).summary()]

    def twins(self, k: int, cosine: float) -> int:
        """Sentences of the summary that another one of it is nearer to than this."""
        rows = dict(zip(self.texts, self.vectors, strict=True))
        matrix = np.array([rows[one.id] for one in self.core(k).summary()])
        cosines = matrix @ matrix.T
        np.fill_diagonal(cosines, -1)
        return int((cosines.max(axis=1) > cosine).sum())

    def changes(self, k: int, *, distinct: bool) -> int:
        """Reviews that changed the set, each taken in one step."""
        core = CoverSumm(k, self.vectors.shape[1], distinct=distinct)
        rows = dict(zip(self.texts, self.vectors, strict=True))
        reviews = groupby(self.texts, key=lambda id_: id_.rpartition("#")[0])
        return sum(
            core.add_many(ids, [rows[one] for one in ids])
            for ids in (list(group) for _, group in reviews)
        )


@pytest.fixture(scope="module")
def stay() -> Stay:
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        reviews = [review for line in lines if (review := json.loads(line))["entity_id"] == STAY]
    reviews.sort(key=lambda review: (review["created_at"], review["review_id"]))
    texts = {
        f"{review['review_id']}#{i}": sentence
        for review in reviews
        for i, sentence in enumerate(split_sentences(review["text"], 2000))
    }
    assert f"{len(reviews)} reviews, {len(texts):,} sentences" in WORDS
    return Stay(texts, load_engine("onnx").embed(list(texts.values())))


class Stored(NamedTuple):
    """All sentences as one stored block."""

    points: Points

    @property
    def vectors(self) -> NDArray[np.int16]:
        return self.points.vectors

    def id(self, row: int) -> bytes:
        return self.points.ids[row]


def blocks() -> list[list[str]]:
    """The lines of each block of sentences on the page."""
    return [block.splitlines() for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)]


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading this is, below its headings."""
    (rows,) = re.findall(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.M)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def test_the_sentences_are_those_of_the_sample(stay: Stay) -> None:
    five, fifteen, _ = blocks()
    assert five == stay.shown(5)
    assert five + fifteen == stay.shown(20)


def test_twins_and_changes_by_k(stay: Stay) -> None:
    rows = table("`k`")
    assert [int(row[0]) for row in rows] == [3, 5, 10, 20, 50]
    for k, above_90, above_80, changes in (map(int, row) for row in rows):
        assert (above_90, above_80) == (stay.twins(k, 0.9), stay.twins(k, 0.8))
        assert changes == stay.changes(k, distinct=False)


def test_the_short_view(stay: Stay) -> None:
    rows = quantize(stay.vectors)
    by_id = {id_.encode(): row for id_, row in zip(stay.texts, rows, strict=True)}
    block = Points(list(by_id), rows)

    def scan() -> Iterable[Block]:
        yield Stored(block)

    shown = choose(scan, rows.shape[1], 0.8, 20)
    counts = stands_for(scan, shown.vectors[:10], 0.8, lambda id_: id_.rpartition(b"#")[0])
    (_, _, lines) = blocks()
    assert lines == [
        f"{stay.texts[id_.decode()]} ({count.sentences})"
        for id_, count in zip(shown.ids, counts, strict=False)
    ]
    ranking = [one.id.encode() for one in stay.core(100).summary()]
    deep = [ranking.index(shown.ids[at]) + 1 for at in (9, 19)]
    assert f"among the {deep[0]} nearest sentences of the ranking" in WORDS
    assert f"a view of twenty goes down to number {deep[1]}." in WORDS
    represented = sum(count.sentences for count in counts)
    assert f"together stand for {represented} of {len(stay.texts):,} sentences" in WORDS


def test_what_distinct_does(stay: Stay) -> None:
    with_copies, without = stay.shown(20), stay.shown(20, distinct=True)
    (off, on) = table("`distinct`")
    copies = [text for text in with_copies if text.lower() == "great place to stay."]
    assert off == ["off", str(len(copies)), str(stay.changes(20, distinct=False))]
    assert on == [
        "on",
        str(sum(text.lower() == "great place to stay." for text in without)),
        str(stay.changes(20, distinct=True)),
    ]
    new = [text for text in without if text not in with_copies]
    assert len(new) == len(copies) - 1
    for text in new:
        assert f'"{text}"' in WORDS
    assert [one.support for one in stay.core(20).summary() if one.support > 1] == [3, 3, 3]


def test_complaints_are_far_away(stay: Stay) -> None:
    ranked = stay.shown(len(stay.texts))
    ranks = [rank for rank, text in enumerate(ranked, start=1) if COMPLAINT.search(text)]
    said = re.search(
        r"Of the (\d+) sentences .* has rank (\d+), half of them are beyond rank ([\d,]+)", WORDS
    )
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(ranks), ranks[0])
    assert sum(rank > int(said[3].replace(",", "")) for rank in ranks) * 2 >= len(ranks)


def test_what_weigh_does() -> None:
    """The sentences beside the generated tables."""
    record = read_record("quality_copies.json")
    assert record["entity"] == STAY
    of_texts = [row for row in record["summary"] if row["weigh"] == "texts"]
    assert {row["least"] for row in of_texts} == {record["k"]} == {20}
    assert all(row["texts"]["least"] >= 2 for row in record["facets"])
    assert any(row["reviews"]["least"] == 0 for row in record["facets"])
    assert record["forms"] == len(PARAPHRASES) == 40
    assert record["paraphrases"]["texts"] <= record["paraphrases"]["reviews"] < 20
    assert len(ADVERTS) == 5
