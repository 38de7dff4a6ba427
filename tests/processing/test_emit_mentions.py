"""With COVERSUMM_EMIT_MENTIONS facets are published when the mentions of one differ by so many
percent from those last published, also after a restart.
"""

import json

import pytest

from tests.harness.drive import DIMENSION, Driver, FakeEngine, config, delete_sentences, upsert
from worker.facets.definitions import Definitions, Facet
from worker.facets.membership import facet_criteria

CRITERIA = facet_criteria(
    Definitions([Facet("late", within_days=1, words=("good",), k=1)]), DIMENSION, FakeEngine().embed
)


@pytest.mark.parametrize(
    ("percent", "published"), [(0, [1]), (1, [1, 2, 3, 4, 5, 6]), (50, [1, 2, 3, 5])]
)
@pytest.mark.parametrize("restarts", [False, True])
def test_so_many_percent(percent, published, restarts):
    driver = Driver(config(facets=CRITERIA, facets_topic="facets", emit_mentions=percent))
    found = []
    for number in range(6):  # one vector, so the set stays that of the first review
        if restarts:
            driver.restart()
        sentences = [{"text": "good", "embedding": [1, 0, 0]}]
        more = {"sentences": sentences, "occurred_at": "2026-11-20T12:00:00Z"}
        done = driver.run(upsert(number, f"r{number}", **more))
        found += [
            json.loads(message.value) for message in done.messages if message.topic == "facets"
        ]
    assert [body["facets"][0]["mentions"]["review_count"] for body in found] == published
    assert all(body["changed"] == ["late"] for body in found)


def test_a_review_whose_sentence_with_the_word_is_deleted_mentions_nothing():
    driver = Driver(config(facets=CRITERIA, facets_topic="facets", emit_mentions=1))
    sentences = [{"text": text, "embedding": [1, 0, 0]} for text in ("good", "bad")]
    driver.run(upsert(0, "r", sentences=sentences, occurred_at="2026-11-20T12:00:00Z"))
    [*_, message] = driver.run(delete_sentences(1, "r#0")).messages
    assert json.loads(message.value)["facets"][0]["mentions"]["review_count"] == 0
