"""The page in a real Chromium: by keyboard, paused, on a touch screen, and checked by axe-core."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import threading
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestServer

from tests.harness.bodies import BODY
from tests.harness.browser import Browser, Tab
from tests.harness.long import one_of
from tests.harness.page_site import Site, change
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import VIEW, FakeState
from worker.events import FacetSummary, Message, Ratings, SummarySentence
from worker.events.json_codec import encode
from worker.events.outputs import FacetsChanged, Mentions
from worker.events.publishing import FACETS, SUMMARIES, OutputTopic
from worker.processing.entity_view import FacetsView, Overview, OverviewSentence
from worker.published.history import PublishedChange
from worker.state.listing import EntitySearch, ListedEntity, Page
from worker.web.page.history import ChangeHistory

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(PATIENCE_SECONDS)]

AXE = files("axe_core_python").joinpath("axe.min.js").read_text()
TAB, ENTER = ("Tab", 9), ("Enter", 13)
EASY = "Parking wasn't the easiest."
LONG = "A sentence that goes on for longer than its box is high. " * 60


def published(number: int, date: str) -> PublishedChange:
    """The change of this number of an entity, on that date."""
    identifier = f"r{number}#0"
    return PublishedChange(
        partition=0,
        offset=number,
        published_at="2026-11-24T16:10:29.123Z",
        facet=None,
        tombstone=False,
        epoch=1,
        sequence=number,
        previous_sequence=None,
        incomplete=False,
        occurred_at=date,
        cause=msgspec.to_builtins(BODY.cause),
        added=[identifier],
        removed=[],
        added_texts={identifier: LONG},
        removed_texts={},
        sentences=number,
        sentence_count=number,
        review_count=number,
    )


def said(sentence_id: str, text: str) -> SummarySentence:
    return SummarySentence(
        rank=0,
        sentence_id=sentence_id,
        review_id=sentence_id.partition("#")[0],
        text=text,
        rating=4.0,
        distance=0.25,
        support=1,
    )


class StaysSite(Site):
    """A worker with two entities, a history of three changes, and facets."""

    url = ""
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[EntitySearch] = []
        self.state.entities = self.entities
        self.state.view = self.view
        self.state.describe = lambda: {
            "facets": True,
            "input_topic": "stays.reviews",
            "embedder": "onnx",
            "reads": ["en"],
            "ready": True,
            "lag": {"0": 0},
            "instance_id": "worker-0",
            "epoch": 1,
            "partition_count": 1,
        }
        self.history.read = self.read  # type: ignore[method-assign]

    async def entities(self, _partitions: object, search: EntitySearch, *_: object) -> Page:
        self.searches.append(search)
        return Page([ListedEntity("x", 3, 2, 1000, 0), ListedEntity("y", 3, 2, None, 0)], None, 2)

    async def view(self, entity_id: str, kind: Any, extent: Any = None) -> Any:
        if kind is not FacetsView:
            return await FakeState.view(self.state, entity_id, kind, extent)
        parking = FacetSummary("parking", 3, 109, 104, Ratings(95, 4.2), [said("r1#0", EASY)])
        noise = FacetSummary("noise", 3, 0, 0, Ratings(0, None), [])
        return FacetsView("x", 0, 871, 2594, Ratings(800, 4.625), 3, (parking, noise))

    async def read(
        self, _entity_id: str, _before: int | None, kind: OutputTopic = SUMMARIES
    ) -> ChangeHistory:
        if kind is FACETS:
            change = dataclasses.replace(published(1, "2016-08-07T00:00:00Z"), facet="parking")
            return ChangeHistory([dataclasses.replace(change, added_texts={"r1#0": EASY})], None, 3)
        dates = ("2016-08-07T00:00:00Z", "2016-08-09T00:00:00Z", "2018-06-17T14:30:00Z")
        changes = [published(number + 1, date) for number, date in enumerate(dates)]
        return ChangeHistory(changes, None, 3)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def site() -> Iterator[StaysSite]:
    """It is served from a thread of its own, at `url`."""
    made = StaysSite()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)

    async def serve() -> TestServer:
        server = TestServer(made.application())
        await server.start_server()
        return server

    server = run(serve())
    made.url, made.loop = str(server.make_url("/")), loop
    yield made
    run(asyncio.sleep(0.2))  # a connection that the browser has just opened is known to the server
    run(server.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def live(tab: Tab) -> None:
    tab.wait("document.querySelector('.state')?.textContent === 'live'")


def announce(site: StaysSite, *texts: str) -> None:
    """Changes of entities of these names."""
    for number, text in enumerate(texts):
        body = msgspec.structs.replace(BODY, entity_id=text, sequence=1000 + number)
        site.feed.committed([change(text, encode(body))])


def listed(tab: Tab) -> list[str]:
    found = tab.evaluate("[...document.querySelectorAll('.changes a')].map((a) => a.innerText)")
    assert isinstance(found, list)
    return found


def test_what_changed_before_is_shown_beside_the_largest_entity(
    site: StaysSite, browser: Browser
) -> None:
    announce(site, "a", "b")
    tab = browser.open(site.url)
    live(tab)
    tab.wait("document.querySelectorAll('.changes a').length === 2")
    assert listed(tab) == ["b", "a"]
    tab.wait("document.querySelector('h1').textContent === 'x'")
    tab.wait("document.querySelector('.overview')?.innerText.includes('Grün.')")
    announce(site, "a", "b", "c")
    tab.wait("document.querySelectorAll('.changes a').length === 3")  # none of them twice
    tab.close()


def test_the_moving_list_can_be_paused(site: StaysSite, browser: Browser) -> None:
    tab = browser.open(site.url)
    live(tab)
    announce(site, "a")
    tab.wait("document.querySelectorAll('.changes a').length === 1")
    tab.click(".news button")
    announce(site, "b", "c")
    tab.wait("document.querySelector('.news .facts').innerText.includes('3 changes')")
    assert listed(tab) == ["a"]
    tab.click(".news button")
    assert listed(tab) == ["c", "b", "a"]
    tab.close()


def test_by_keyboard_alone(site: StaysSite, browser: Browser) -> None:
    tab = browser.open(site.url)
    tab.wait("document.querySelectorAll('#found a').length === 2")
    tab.press(*TAB)
    assert tab.evaluate("document.activeElement.className") == "skip"
    box = tab.evaluate("document.activeElement.getBoundingClientRect().left")
    assert box >= 0, "it is seen while it has the focus"
    tab.press(*ENTER)
    assert tab.evaluate("document.activeElement.tagName") == "H1"
    assert tab.evaluate("location.hash") == ""
    tab.press("/", 191)
    assert tab.evaluate("document.activeElement.id") == "contains"
    tab.press("ArrowUp", 38)
    assert tab.evaluate("document.activeElement.id") == "contains"
    for key in (("ArrowDown", 40), ("ArrowDown", 40), ("ArrowDown", 40)):
        tab.press(*key)
    assert tab.evaluate("document.activeElement.dataset.id") == "y"
    site.state.summaries["y"] = site.state.summaries["x"]
    tab.press(*ENTER)
    tab.wait("document.querySelector('h1').textContent === 'y'")
    assert tab.evaluate("document.activeElement.tagName") == "H1"
    tab.close()


def show_facets(tab: Tab) -> None:
    """By keyboard: the button is the second of the views."""
    tab.wait("document.querySelector('.views button[value=overview][aria-pressed=true]') !== null")
    tab.evaluate("document.querySelector('.views button').focus()")
    for key in (TAB, ENTER):
        tab.press(*key)
    tab.wait("document.querySelector('.facets .came') !== null")
    mark = "getComputedStyle(document.querySelector('.facets .came'), '::before').content"
    assert tab.evaluate(mark) == '"new "'  # a word: colours and signs are those of pros and cons


def rows_of(tab: Tab) -> list[str]:
    rows = "[...document.querySelectorAll('.facets > li')]"
    found = tab.evaluate(f"{rows}.map((one) => one.innerText.replace(/\\s+/g, ' '))")
    assert isinstance(found, list)
    return found


def test_a_row_for_each_facet_by_keyboard_and_live(site: StaysSite, browser: Browser) -> None:
    """Sentences, counts, the rating beside that of all reviews, and what changed last."""
    tab = browser.open(f"{site.url}#/entity/x")
    live(tab)
    show_facets(tab)
    (parking,) = rows_of(tab)  # there is no noise
    for shown in (
        "parking 104 reviews 4.2 of 5 109 sentences",
        f"1 {EASY} rated 4 of 5",
        f"· review r-81, written Aug 7, 2016 {EASY}",
    ):
        assert shown in parking
    assert "parking · review r-81, written" in tab.text(".changes:not(.facets *)")

    easy, loud = said("r1#0", EASY), said("r9#0", "It was loud.")
    body = FacetsChanged(
        "x", 1, 9, 3, ["noise"], 872, 2600,
        [
            FacetSummary("parking", 3, 110, 105, Ratings(95, 4.2), [easy]),
            FacetSummary("noise", 3, 1, 1, Ratings(1, 2.0), [loud]),
        ],
        BODY.cause, None, "m",
    )  # fmt: skip
    site.feed.committed([Message("facets", 0, b"x", encode(body), [])])
    tab.wait("document.querySelector('.facets').innerText.includes('It was loud.')")
    parking, noise = rows_of(tab)
    assert "110 sentences" in parking
    assert "1 review 2.0 of 5" in noise
    assert tab.evaluate("document.querySelector('.facets .new p').innerText") == "It was loud."
    assert "noise · review " in tab.text(".changes:not(.facets *) li")
    body = msgspec.structs.replace(body, sequence=10, facets=[
        FacetSummary("noise", 3, 0, 0, Ratings(0, None), []), body.facets[0]])  # fmt: skip
    site.feed.committed([Message("facets", 0, b"x", encode(body), [])])
    tab.wait("document.querySelectorAll('.facets > li').length === 1")
    assert tab.text(".changes:not(.facets *) .left") == "It was loud."
    tab.click(".views summary")  # More
    tab.click(".views button[value=ranking]")
    tab.wait("document.querySelector('.sentences')?.innerText.includes('Grün.')")
    assert "distance 0.250" in tab.text(".sentences").replace("\n", " ")
    assert tab.evaluate("document.querySelector('.facets')") is None
    assert "parking" not in tab.text(".changes:not(.facets *)")
    summary = msgspec.structs.replace(BODY, entity_id="x", sequence=1000)
    of_facets = encode(msgspec.structs.replace(body, sequence=1000))
    news = [change("x", encode(summary)), Message("facets", 0, b"x", of_facets, [])]
    site.feed.committed(news)
    tab.wait("document.querySelector('.sentences .new') !== null")  # facets do not take the mark
    assert tab.complaints == []
    tab.close()


def axe(tab: Tab) -> None:
    """Raise AssertionError if axe-core finds anything."""
    tab.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished))")
    tab.evaluate(f"{AXE};0")
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    violations = [
        (finding["id"], finding["impact"], [node["html"][:200] for node in finding["nodes"]])
        for finding in found["violations"]
    ]
    assert violations == [], json.dumps(violations, indent=1)


def in_language(name: str, language: str, count: int, sentence: SummarySentence) -> FacetSummary:
    return FacetSummary(name, 3, count, count, Ratings(0, None), [sentence], language)


def test_a_switch_of_languages(site: StaysSite, browser: Browser) -> None:
    """At first the language of the most sentences; a change is that of its own language."""
    quiet, calme, calm = said("r3#0", "Quiet."), said("r4#0", "Calme."), said("r1#0", EASY)
    facets = [
        in_language("everything", "fr", 9, calme),
        in_language("parking", "fr", 7, calme),
        in_language("everything", "en", 5, calm),
        in_language("parking", "en", 4, calm),
    ]

    async def view(*_: object) -> FacetsView:
        return FacetsView("x", 0, 14, 14, Ratings(0, None), 3, tuple(facets))

    async def read(*_: object) -> ChangeHistory:
        of = {"parking (en)": ("r1#0", EASY), "parking (fr)": ("r4#0", "Calme.")}
        changes = [
            dataclasses.replace(
                published(at, "2016-08-07T00:00:00Z"),
                facet=name,
                added=[sid],
                added_texts={sid: text},
            )
            for at, (name, (sid, text)) in enumerate(of.items(), 1)
        ]
        return ChangeHistory(changes, None, 3)

    async def either(entity_id: str, kind: Any, extent: Any) -> Any:
        return await (
            view() if kind is FacetsView else FakeState.view(site.state, entity_id, kind, extent)
        )

    site.state.view = either
    site.history.read = read  # type: ignore[method-assign,assignment]
    tab = browser.open(f"{site.url}#/entity/x")
    live(tab)
    show_facets(tab)
    switch = "document.querySelector('[aria-label=Language]')"
    pressed = f"{switch}.querySelector('[aria-pressed=true]').textContent"
    assert tab.evaluate(f"[...{switch}.children].map((one) => one.textContent)") == [
        "French", "English", "All languages",
    ]  # fmt: skip
    assert tab.evaluate(pressed) == "French"
    everything, parking = rows_of(tab)
    assert everything.startswith("everything 9 reviews")
    assert parking.startswith("parking 7 reviews")
    assert "written Aug 7, 2016 Calme." in parking
    chart, changes = ".chart .rows", ".changes:not(.facets *)"
    for part in (chart, changes):
        assert "Calme." in tab.text(part)
        assert EASY not in tab.text(part)

    tab.evaluate(f"{switch}.children[2].click()")
    names = "[...document.querySelectorAll('.facets h2')].map((one) => one.innerText)"
    all_names = [f"{facet.name} ({facet.language})" for facet in facets]
    assert tab.evaluate(names) == all_names
    assert EASY in tab.text(chart)
    tab.evaluate(f"{switch}.children[1].focus()")
    tab.press(*ENTER)
    assert tab.evaluate(names) == ["everything", "parking"]
    assert EASY in rows_of(tab)[1]

    facets[1:4:2] = [in_language("parking", "fr", 7, calme), in_language("parking", "en", 5, quiet)]
    body = FacetsChanged("x", 1, 9, 3, ["parking"], 15, 15, facets, BODY.cause, None, "m")
    site.feed.committed([Message("facets", 0, b"x", encode(body), [])])
    tab.wait("document.querySelector('.facets').innerText.includes('Quiet.')")
    assert "Quiet." in rows_of(tab)[1]
    assert tab.evaluate("document.querySelector('.facets .new p').innerText") == "Quiet."
    assert tab.evaluate("document.activeElement.textContent") == "English"
    tab.evaluate(f"{switch}.children[0].click()")
    assert "Calme." in rows_of(tab)[1]  # another language of this name changed
    assert tab.evaluate(f"document.querySelectorAll('{changes} li').length") == 1
    assert tab.evaluate("location.hash") == "#/entity/x?view=facets&language=fr"
    axe(tab)
    tab.evaluate("document.querySelector('.views button[value=ranking]').click()")
    assert tab.evaluate(f"{switch}.hidden")
    assert tab.evaluate("location.hash") == "#/entity/x?view=ranking"
    for language, shown in (("en", "English"), ("", "All languages"), ("nl", "French")):
        tab.evaluate(f"location.hash = '#/entity/x?view=facets&language={language}'")
        tab.wait(f"{switch}?.querySelector('[aria-pressed=true]')?.textContent === '{shown}'")
    assert tab.complaints == []
    tab.close()


def pressed(tab: Tab) -> str:
    return str(tab.evaluate("document.querySelector('.views [aria-pressed=true]')?.value ?? ''"))


def test_the_overview_is_first_and_each_quote_leads_to_its_review(
    site: StaysSite, browser: Browser
) -> None:
    """A block for each subject: mentions, mean rating, quotes, pros and cons."""
    pros, cons = [said("r 1/?#0", EASY)], [said("r9#0", "There was no place to park.")]
    counted = Mentions(194, Ratings(90, 3.5, {"5": 60, "0.5": 30}))
    parking = FacetSummary(
        "parking", 3, 109, 104, Ratings(95, 4.2), pros, mentions=counted, pros=pros, cons=cons
    )
    arabic = "الموقع رائع"
    quoted = [
        OverviewSentence(0, "place", 9, "r5#0", "r5", arabic, None, 0.1),
        OverviewSentence(
            1, "parking", 109, "r 1/?#0", "r 1/?", EASY, 4.0, 0.2, "2016-08-07T00:00:00Z"
        ),
    ]
    place = FacetSummary("place", 3, 9, 8, Ratings(0, None), [said("r5#0", arabic)])
    found = Overview("x", 0, 871, 2594, Ratings(800, 4.625), 0.8, tuple(quoted), (parking, place))

    async def view(entity_id: str, kind: Any, extent: Any) -> Any:
        if kind is Overview:
            return found
        return await StaysSite.view(site, entity_id, kind, extent)

    site.state.view = view
    status = site.state.describe() | {"review_url": "https://shop.example/{entity_id}#{review_id}"}
    site.state.describe = lambda: status
    tab = browser.open(f"{site.url}#/entity/x", 390, 844)
    live(tab)
    tab.wait("document.querySelectorAll('.overview > li').length === 2")
    assert "4.6 of 5" in tab.text(".facts")
    first, second = rows_of(tab)
    counts = "parking 194 mentions 3.5 of 5 0.5★ 30, 5★ 60"
    assert first.startswith(f"{counts} {EASY} pro 4 of 5 Aug 7, 2016 review")
    assert first.count(EASY) == 1  # it is marked as a pro, and not repeated
    assert "Pros" not in first
    assert first.index("Cons") < first.index("There was no place to park.")
    assert second.startswith(f"place 8 reviews {arabic}")
    links = "[...document.querySelectorAll('.overview a')].map((one) => one.href)"
    assert tab.evaluate(links) == [
        f"https://shop.example/x#{review_path}" for review_path in ("r%201%2F%3F", "r9", "r5")
    ]
    of_arabic = "[...document.querySelectorAll('.overview .quoted')].at(-1)"
    assert tab.evaluate(f"getComputedStyle({of_arabic}).direction") == "rtl"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    axe(tab)
    assert tab.complaints == []
    tab.close()


@pytest.mark.parametrize("languages", [{}, {"he": 30, "en": 1}, {"en": 30, "he": 1}])
def test_an_entity_without_a_quote_says_why_and_leads_to_its_sentences(
    site: StaysSite, browser: Browser, languages: dict[str, int]
) -> None:
    empty = Overview("x", 0, 31, 93, Ratings(1, 4.0), 0.8, (), (), languages=languages)

    async def view(entity_id: str, kind: Any, extent: Any) -> Any:
        return empty if kind is Overview else await StaysSite.view(site, entity_id, kind, extent)

    site.state.view = view
    tab = browser.open(f"{site.url}#/entity/x")
    live(tab)
    tab.wait("document.querySelector('.entity .more') !== null")
    text = str(tab.evaluate("document.body.innerText"))
    is_hebrew = languages.get("he") == 30
    assert ("30 reviews in Hebrew: this model reads English." in text) is is_hebrew
    assert ("No facet quotes a sentence." in text) is not is_hebrew
    axe(tab)
    tab.click(".entity .more")
    tab.wait("document.querySelector('ol.sentences')?.innerText.includes('Grün.')")
    assert tab.evaluate("location.hash") == "#/entity/x?view=ranking"
    tab.close()


def test_the_address_keeps_the_view_and_back_returns_to_it(
    site: StaysSite, browser: Browser
) -> None:
    tab = browser.open(f"{site.url}#/entity/x")
    tab.wait("document.querySelector('.views [aria-pressed=true]')?.value === 'overview'")
    tab.click(".views summary")  # More
    tab.click(".views button[value=ranking]")
    tab.click(".views button[value=short]")
    assert tab.evaluate("location.hash") == "#/entity/x?view=short"
    tab.call("Page.reload")
    tab.wait("document.querySelector('.views [aria-pressed=true]')?.value === 'short'")
    for view in ("ranking", "overview"):
        tab.evaluate("history.back()")
        tab.wait(f"document.querySelector('.views [aria-pressed=true]')?.value === '{view}'")
    assert pressed(tab) == "overview"
    assert tab.text("h1") == "x"
    tab.close()


def test_a_deleted_entity_leaves_the_list_which_is_ordered_by_reviews(
    site: StaysSite, browser: Browser
) -> None:
    async def entities(*_: object) -> Page:
        some = [
            ListedEntity(name, 9, count, None, 0)
            for name, count in zip("xyz", (2, 7, 5), strict=True)
        ]
        return Page(some, None, 3)

    site.state.entities = entities
    view = site.state.view
    site.state.view = lambda _id, kind, extent=None: view("x", kind, extent)
    ids = "[...document.querySelectorAll('#found a')].map((one) => one.dataset.id).join('')"
    tab = browser.open(f"{site.url}#/")
    live(tab)
    tab.wait(f"{ids} === 'yzx'")
    announce(site, "z")
    tab.wait(f"{ids} === 'zyx'")  # it has 240 now
    site.feed.committed([change("y")._replace(value=None)])
    tab.wait(f"{ids} === 'zx'")
    tab.close()


def test_an_unknown_entity_is_not_live(site: StaysSite, browser: Browser) -> None:
    tab = browser.open(f"{site.url}#/entity/nobody")
    tab.wait("document.querySelector('.state').textContent === 'waiting for it'")
    assert "live" not in tab.evaluate("document.querySelector('.state').className").split()
    tab.wait("document.querySelectorAll('.problem a').length === 2")
    assert tab.text(".problem") == "There is no entity “nobody”. The nearest ids: y, x."
    assert site.searches[-1] == EntitySearch(near="nobody")
    assert tab.evaluate("document.querySelector('.entity').checkVisibility()") is False
    assert tab.evaluate("document.querySelector('#found [aria-current]')") is None
    tab.click(".problem a:last-child")
    tab.wait("document.querySelector('h1').textContent === 'x'")
    tab.close()


def many_entities(count: int, limit: int = 200) -> Page:
    """Those with the most reviews of so many, of which the last has the most."""
    some = [ListedEntity(f"e{number}", 9, number, None, 0) for number in range(1, count + 1)]
    return Page(some[::-1][:limit], None, count)


def test_home_shows_the_largest_of_2003_entities_and_cards_of_the_next(
    site: StaysSite, browser: Browser
) -> None:
    async def entities(_partitions: object, search: EntitySearch, limit: int, _: object) -> Page:
        assert search.by_reviews
        return many_entities(2003, limit)

    site.state.entities = entities
    view = site.state.view
    site.state.view = lambda _id, kind, extent=None: view("x", kind, extent)
    tab = browser.open(site.url)
    tab.wait("document.querySelectorAll('.cards li').length === 6")
    assert tab.text("h1") == "e2003"
    assert tab.evaluate("document.querySelectorAll('#found li').length") == 200
    cards = "[...document.querySelectorAll('.cards li')].map((one) => one.innerText)"
    assert tab.evaluate(cards)[0].split("\n") == ["e2002", "4.0 of 5 · 2 reviews", "news"]
    assert "The 200 with the most reviews of 2,003." in tab.text("#notice")
    axe(tab)
    tab.evaluate("location.hash = '#/entity/e5'")  # far beyond the list
    tab.wait("document.querySelector('#found [aria-current]')?.dataset.id === 'e5'")
    assert tab.evaluate("document.querySelectorAll('#found li').length") == 201
    tab.evaluate("location.hash = '#/entity/e2000'")
    tab.wait("document.querySelector('#found [aria-current]')?.dataset.id === 'e2000'")
    assert tab.evaluate("document.querySelectorAll('#found li').length") == 200
    tab.click("#more")
    tab.wait("document.querySelectorAll('#found li').length === 400")
    assert tab.complaints == []
    tab.close()


def test_enter_opens_the_first_hit(site: StaysSite, browser: Browser) -> None:
    tab = browser.open(site.url)
    tab.wait("document.querySelectorAll('#found a').length === 2")
    tab.type("#contains", "x")
    tab.press(*ENTER)
    tab.wait("location.hash === '#/entity/x'")
    tab.wait("document.activeElement.tagName === 'H1'")
    tab.close()


def test_a_worker_that_starts_is_behind_or_has_no_reviews(
    site: StaysSite, browser: Browser
) -> None:
    """Each is said, with what to do, and the page goes on by itself."""
    found: list[ListedEntity] = []

    async def entities(*_: object) -> Page:
        return Page(found, None, 0)

    status = site.state.describe() | {"lag": {"0": 3999, "1": 1}, "facets": False}
    site.state.entities, site.state.describe = entities, lambda: status
    site.state.behind = "not yet: 4,000 records behind"
    view, site.state.view = site.state.view, no_view
    tab = browser.open(site.url)
    tab.wait("document.querySelector('#shown .problem') !== null")
    assert tab.text("#shown .problem") == "Not yet: 4,000 records behind."
    assert tab.text("#worker") == "4,000 records behind"
    status |= {"ready": False, "reason": "rebalancing"}
    tab.wait("document.querySelector('#shown .problem').innerText === 'Not yet: rebalancing.'")
    status |= {"ready": True, "lag": {"0": 0}}
    tab.wait("document.querySelector('.command') !== null")
    line = "COVERSUMM_INPUT_TOPIC=stays.reviews coversumm-worker send reviews.csv"
    assert tab.text(".command code") == line
    assert "COVERSUMM_FACETS=preset:" in tab.text("#shown")
    axe(tab)

    tab.evaluate("location.hash = '#/entity/x'")
    tab.wait("document.querySelector('.problem')?.textContent.startsWith('Not yet: 4,000 rec')")
    assert "no entity" not in tab.text()
    site.state.view = view
    tab.wait("document.querySelector('.sentences')?.innerText.includes('Grün.')")
    assert tab.text(".problem") == ""
    found.append(ListedEntity("x", 3, 2, None, 0))
    tab.evaluate("location.hash = '#/'")
    tab.wait("document.querySelector('h1').innerText === 'x'")
    assert tab.complaints == []
    tab.close()


async def no_view(*_: object) -> None:
    return None


def test_a_frozen_worker_is_said_once_and_the_page_goes_on(
    site: StaysSite, browser: Browser
) -> None:
    tab = browser.open(f"{site.url}#/entity/x")
    live(tab)
    tab.wait("document.querySelector('.overview') !== null")
    thawed = threading.Event()
    site.loop.call_soon_threadsafe(thawed.wait)
    tab.wait("!document.querySelector('#away').hidden")
    said = tab.text("#away")
    assert said.startswith("The worker has not answered since ")
    assert re.search(r"\d:\d\d:\d\d", said)
    assert tab.text(".problem") == tab.text("#notice") == ""
    axe(tab)
    searches = len(site.searches)
    thawed.set()
    tab.wait("document.querySelector('#away').hidden")
    live(tab)
    tab.wait("document.querySelector('.overview') !== null")
    assert len(site.searches) > searches  # another worker may have other entities
    tab.close()


def test_what_is_shown_can_be_asked_by_curl(site: StaysSite, browser: Browser) -> None:
    site.state.summaries["it's"] = VIEW
    tab = browser.open(f"{site.url}#/entity/it%27s?view=short")
    tab.wait("document.querySelector('.curl code') !== null")
    tab.click(".curl summary")
    path = f"{site.url}entities/it%27s/summary?view=short"
    assert tab.text(".curl code") == f"curl -s '{path}'"
    tab.click(".views button[value=ranking]")
    assert tab.text(".curl code") == f"curl -s '{path.partition('?')[0]}'"
    tab.close()


def test_without_an_embedder_there_is_no_field_for_questions(
    site: StaysSite, browser: Browser
) -> None:
    for embedder, is_shown in (("none", False), ("onnx", True)):
        status = site.state.describe() | {"embedder": embedder}
        site.state.describe = lambda status=status: status
        tab = browser.open(f"{site.url}#/entity/x")
        tab.wait("document.querySelector('.views [aria-pressed=true]') !== null")
        field = "document.querySelector('.questions').checkVisibility()"
        assert tab.evaluate(field) is is_shown
        tab.close()


def test_an_edit_is_not_called_a_new_review(site: StaysSite, browser: Browser) -> None:
    site.state.describe = lambda: {"ready": True, "facets": False}
    cause = msgspec.structs.replace(BODY.cause, review_id="r9")

    async def read(*_: object) -> ChangeHistory:
        came = dataclasses.replace(
            published(1, "2016-08-07T00:00:00Z"), cause=msgspec.to_builtins(cause)
        )
        edited = dataclasses.replace(came, sequence=2, removed=["r9#0"], added=[])
        return ChangeHistory([came, edited], None, 2)

    site.history.read = read  # type: ignore[method-assign]
    tab = browser.open(f"{site.url}#/entity/x")
    tab.wait("document.querySelectorAll('.changes time').length === 2")
    edit, first = times(tab)
    assert "· edited review r9, written" in edit
    assert "· review r9, written" in first
    assert "new review" not in tab.text(".changes")
    tab.close()


def test_dates_without_a_time_and_the_axis_of_time(site: StaysSite, browser: Browser) -> None:
    """The second of three changes is two days after the first, the third two years."""
    tab = browser.open(f"{site.url}#/entity/x?view=ranking")
    tab.wait("document.querySelectorAll('.chart .step').length === 3")
    first, second, third = (time.split("written ")[1] for time in reversed(times(tab)))
    assert (first, second, third) == ("Aug 7, 2016", "Aug 9, 2016", "Jun 17, 2018")
    assert all(time.startswith("Nov 24, 2026, ") for time in times(tab))  # when they arrived
    at = tab.evaluate(
        "[...document.querySelectorAll('.chart .step')].map((one) => "
        "Number(one.style.getPropertyValue('--a')))"
    )
    assert at[0] == 0 < at[1] < 1
    assert at[2] == 96
    labels = tab.evaluate(
        "[...document.querySelectorAll('.chart .tick')].map((one) => one.textContent)"
    )
    assert labels == ["Aug 7, 2016", "Jun 17, 2018"]
    tab.close()


def times(tab: Tab) -> list[str]:
    found = tab.evaluate("[...document.querySelectorAll('.changes time')].map((t) => t.innerText)")
    assert isinstance(found, list)
    return found


def test_targets_are_large_enough_for_fingers(site: StaysSite, browser: Browser) -> None:
    tab = browser.open(site.url, 390, 844)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    tab.wait("document.querySelectorAll('#found a').length === 2")
    announce(site, "a")
    tab.wait("document.querySelectorAll('.changes a').length === 1")
    heights = tab.evaluate(
        "[...document.querySelectorAll('a:not(.skip), button, input, select')]"
        ".filter((one) => one.offsetParent).map((one) => one.getBoundingClientRect().height)"
    )
    assert len(heights) > 4
    assert min(heights) >= 44
    tab.close()


def test_the_trend_of_each_facet_is_a_table(browser: Browser, site: StaysSite) -> None:
    tab = browser.open(f"{site.url}#/entity/x")
    tab.wait("document.querySelector('.trends:not([hidden]) summary') !== null")
    tab.evaluate("document.querySelector('.trends summary').click()")  # it moves
    tab.wait("document.querySelector('.trends tbody tr') !== null")
    assert tab.text(".trends thead").split() == ["subject", "2026-Q4", "change"]
    assert tab.text(".trends tbody").split() == ["news", "1", "complaints", "rose"]
    title = "document.querySelector('.trends tbody td:last-child').title"
    assert tab.evaluate(title) == "9 in the last 90 days, 1 in the 365 before"
    tab.close()


def test_a_question_is_answered(browser: Browser, site: StaysSite) -> None:
    tab = browser.open(f"{site.url}#/entity/x")
    tab.wait("document.querySelector('.questions input') !== null")
    tab.type(".questions input", "Is it quiet?")
    tab.press("Enter", 13)
    tab.wait("document.querySelector('.questions li .quoted')?.textContent === 'Grün.'")
    said = tab.text(".questions [role=status]")
    assert said == "At least 1 of 2 reviews speaks of it. 1 of them has the word “quiet”."
    ((entity, question, vector),) = [call for call in site.state.asked if len(call) == 3]
    assert (entity, question.text, vector) == ("x", "Is it quiet?", None)
    site.state.is_busy = True
    tab.press("Enter", 13)
    tab.wait("document.querySelector('.questions [role=status]').textContent.startsWith('No ans')")
    assert tab.evaluate("document.querySelectorAll('.questions li').length") == 0
    tab.close()


@pytest.mark.parametrize("path", ["", "#/entity/x", "#/entity/nobody", "#/entity/x facets"])
@pytest.mark.parametrize(("width", "dark"), one_of([(390, True), (1280, False)]))
def test_axe_finds_nothing(
    site: StaysSite, browser: Browser, path: str, width: int, dark: bool
) -> None:
    announce(site, "a", LONG[:200])
    path, _, facets = path.partition(" ")
    tab = browser.open(f"{site.url}{path}", width, 860, dark=dark)
    tab.wait("/live|waiting/.test(document.querySelector('.state')?.textContent)")
    if facets:
        show_facets(tab)
    axe(tab)
    edge = tab.evaluate(
        "(() => { const of = getComputedStyle(document.querySelector('#contains')); "
        "return [of.borderColor, of.backgroundColor, "
        "getComputedStyle(document.body).backgroundColor]; })()"
    )
    assert min(contrast(edge[0], other) for other in edge[1:]) >= 3
    tab.close()


def contrast(ink: str, other: str) -> float:
    """The contrast ratio of two colours like `rgb(1, 2, 3)`, as WCAG defines it."""

    def luminance(colour: str) -> float:
        shares = [int(part) / 255 for part in colour[4:-1].split(",")]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(ink), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
