"""Reading entities back: `verify` finds what was tampered with."""

import pytest

from tests.harness.drive import Driver, config, delete, delete_entity, upsert
from worker.events import RatingCounts
from worker.events.publishing import SUMMARIES
from worker.state import verify_partition
from worker.state.entity import EntityRows, read_header
from worker.state.keys import IncarnationKeys, header_key
from worker.state.rows import Header, PublishedSets


@pytest.fixture
def driver():
    driver = Driver(config(k=2))
    driver.run(
        upsert(0, "a", ("one", [1, 0, 0]), ("two", [0.9, 0.1, 0]), rating=4),
        upsert(1, "b", ("three", [1, 0.1, 0]), ("far", [-1, 0, 5])),
        upsert(2, "gone", ("four", [1, 0, 0.1])),
        delete(3, "gone"),
        upsert(4, "z", ("alone", [1, 1, 1]), entity_id="other"),
    )
    return driver


def problems(driver, entity_id="e"):
    checks = {
        c.entity_id: c for c in verify_partition(driver.rows[0], dimension=3, k=2, distinct=False)
    }
    return checks[entity_id].problems


def entity_rows(driver):
    rows = driver.rows[0]
    return EntityRows(rows, b"e", read_header(rows, b"e").incarnation, 3)


def test_verify_finds_nothing_wrong(driver):
    checks = list(verify_partition(driver.rows[0], dimension=3, k=2, distinct=False))
    assert [(c.entity_id, c.reviews, c.sentences, c.problems) for c in checks] == [
        ("e", 2, 4, ()),
        ("other", 1, 1, ()),
    ]


def test_verify_finds_another_published_set(driver):
    rows = entity_rows(driver)
    published = rows.published(SUMMARIES)
    changes = {}
    rows.put_published(
        changes, SUMMARIES, PublishedSets(3, [{**published.sets[0], b"b#1": bytes(16)}])
    )
    driver.rows[0].write(changes)
    assert problems(driver) == ("published, but not among the nearest: b#1",)
    driver.rows[0].write({rows.keys.published[SUMMARIES]: None})
    assert problems(driver) == ("not published, but among the nearest: a#1, b#0",)


def test_verify_finds_another_text(driver):
    rows = entity_rows(driver)
    changes = {}
    others = dict.fromkeys(rows.published(SUMMARIES).sets[0], bytes(16))
    rows.put_published(changes, SUMMARIES, PublishedSets(3, [others]))
    driver.rows[0].write(changes)
    assert problems(driver) == ("published with another text: a#1, b#0",)


def test_verify_finds_wrong_counts(driver):
    changes = {}
    entity_rows(driver).put_header(changes, Header(7, 8, 0, RatingCounts({8: 1})))
    driver.rows[0].write(changes)
    assert problems(driver) == (
        "header counts 7 reviews, rows hold 2",
        "header counts 8 sentences, rows hold 4",
    )


def test_verify_finds_wrong_ratings(driver):
    rows = entity_rows(driver)
    header, changes = read_header(driver.rows[0], b"e"), {}
    assert header.ratings == RatingCounts({8: 1})
    rows.put_header(changes, header._replace(ratings=RatingCounts({9: 2})))
    driver.rows[0].write(changes)
    assert problems(driver) == (
        "header counts 2 ratings of mean 4.5 ({'4.5': 2}), rows hold 1 of mean 4.0 ({'4': 1})",
    )


def test_verify_finds_missing_vectors(driver):
    driver.rows[0].write({entity_rows(driver).keys.vector_chunk(b"b", 0): None})
    assert "texts and vectors are not of the same sentences" in problems(driver)


def test_verify_finds_orphans(driver):
    driver.rows[0].write(
        {IncarnationKeys(b"e", 77).published[SUMMARIES]: b"", header_key(b"other"): None}
    )
    assert problems(driver) == (
        "1 row of incarnation 77, which is neither live nor noted for removal",
    )
    assert problems(driver, "other")[0].endswith(
        "of incarnation 4, which is neither live nor noted for removal"
    )


def test_verify_passes_over_what_waits_for_removal(driver):
    driver.run(delete_entity(5))
    checks = list(verify_partition(driver.rows[0], dimension=3, k=2, distinct=False))
    assert [c.entity_id for c in checks] == ["other"]
