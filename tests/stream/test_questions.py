"""Questions and trends beside the stream: known ones are never stale, the others are limited."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from tests.harness.drive import FakeEngine, config, delete, upsert
from tests.harness.patience import PATIENCE_SECONDS
from tests.processing.test_trend import NOISE
from tests.stream.test_summaries import Site, site
from tests.web.test_admission import Clock
from worker.processing.ask import Answer, Question, asking
from worker.processing.entities import EntityKey
from worker.processing.entity_view import read_view
from worker.processing.trend import Trend
from worker.stream import queries
from worker.stream.queries import TooManyQuestions
from worker.stream.rate_limit import RateLimit

__all__ = ["site"]


def question(site: Site, text: str) -> Coroutine[Any, Any, Answer | None]:
    return site.reader.ask(0, "e", Question(text), None)


async def test_known_answers_and_trends_are_those_of_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events come between; nothing is embedded again."""
    monkeypatch.setattr(queries, "QUESTIONS_A_SECOND", 10**6)
    draw = random.Random(0)
    site = Site(config(facets=NOISE, facets_topic="facets"))
    site.driver.processor.begin(0)
    read = 0
    for offset in range(100):
        entity, review = draw.choice(["e", "e", "f"]), f"r{draw.randrange(6)}"
        if draw.random() < 0.3:
            site.driver.run(delete(offset, review, entity_id=entity))
        elif draw.random() < 0.6:
            text = draw.choice(["a loud bed", "a bed", "it is as loud as it may be"])
            site.driver.run(upsert(offset, review, text, entity_id=entity, rating=1))
        for entity, text in draw.choices([("e", "loud?"), ("f", "bed?"), ("e", "bed?")], k=3):
            key = EntityKey(0, entity)
            kinds: list[Any] = [Trend(), asking(Question(text), FakeEngine())]
            expected = [read_view(site.driver.rows[0], key, of, site.driver.config) for of in kinds]
            found = [await site.reader.read(0, entity, Trend())]
            found.append(await site.reader.ask(0, entity, Question(text), None))
            assert found == expected
            read += expected[1] is not None
    assert sum(text.endswith("?") for text in site.engine.asked) == 2 < read


async def test_questions_that_differ_have_answers_of_their_own(site: Site) -> None:
    site.driver.run(upsert(2, "r2", "as quiet as it is", "as loud as it may be"))
    vector = np.array([1, 0, 0], np.float32)
    for asked, given in (
        (Question("one?"), None),
        (Question("one?", 1), None),
        (Question("one?"), vector),
        (Question("one?"), vector[::-1]),
    ):
        answer = await site.reader.ask(0, "e", asked, given)
        fresh = asking(asked, site.engine, given)
        assert answer == read_view(site.rows[0], EntityKey(0, "e"), fresh, site.driver.config)


async def test_what_is_known_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "KNOWN_BYTES", 900)  # two answers
    for text in ("0?", "1?", "0?", "2?", "0?", "1?"):
        await question(site, text)
    views = [json.loads(name) for _, name in site.reader._known._views]
    assert [asked[0]["text"] for _, asked in views] == ["0?", "1?"]
    assert [text for text in site.engine.asked if "?" in text] == ["0?", "1?", "2?"]
    site.driver.run(upsert(2, "r2", "two"))
    await question(site, "1?")
    known = site.reader._known
    assert known._bytes == sum(size for size, _ in known._views.values()) <= 900


async def test_a_question_that_nobody_waits_for_holds_its_place_until_its_thread_is_done(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_QUESTIONS", 1)
    asked = asyncio.ensure_future(question(site, "wait"))
    assert await asyncio.to_thread(site.engine.waiting.wait, PATIENCE_SECONDS)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    with pytest.raises(TooManyQuestions):
        await question(site, "one?")
    site.engine.go.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while site.reader._waiting:
            await asyncio.sleep(0.01)
    assert await question(site, "one?") is not None


async def test_questions_have_a_rate_of_their_own(site: Site) -> None:
    clock = Clock()
    site.reader._limit = RateLimit(2, 2, clock)
    for text in ("1?", "2?", "1?", "2?"):  # known ones do not count
        await question(site, text)
    with pytest.raises(TooManyQuestions) as refused:
        await question(site, "3?")
    assert refused.value.seconds == pytest.approx(0.5)
    clock.sleep(refused.value.seconds)
    assert await question(site, "3?") is not None
