"""The widget on a page of another origin, under the strict policy of the example, in Chromium."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from docs.build.render import ROOT
from tests.harness.browser import Browser, Tab
from tests.harness.eventually import eventually
from tests.harness.page_site import Site, get, served
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.web_state import ANSWER
from tests.web.page.test_browser import EASY, axe, said
from worker.events import FacetSummary, Ratings
from worker.events.outputs import Mentions
from worker.processing.ask import AnswerSentence, Question
from worker.processing.entity_view import Overview, OverviewSentence, UnknownLanguage
from worker.stream.queries import TooManyQuestions

EXAMPLE = ROOT / "deploy" / "examples" / "widget"
HOSTILE = "<img src=x onerror=alert(1)><script>window.hacked = 1</script>"
LOUD = "It is quite loud, though."
ROOT_OF = "document.querySelector('script + div')?.shadowRoot"
SECTION = f"{ROOT_OF}?.querySelector('section')"
TEXT = f"{SECTION}?.innerText ?? ''"
ANSWERED = f"{ROOT_OF}.querySelector('[role=status]').innerText"
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(26, 28, 34)"


class Shop:
    """A worker, and the example's page at another origin."""

    def __init__(self) -> None:
        self.worker = Site()
        self.worker.state.view = self.view
        self.worker.state.ask = self.ask
        self.asked: list[Any] = []
        self.questions: list[str] = []
        self.attributes = self.style = ""
        self.histogram = {"5": 700, "4": 100}
        self.url = self.worker_url = ""

    async def ask(self, entity_id: str, question: Question, vector: Any) -> Any:
        self.questions.append(question.text)
        if question.text == "busy":
            raise TooManyQuestions(1)
        sentence = AnswerSentence(0, "r9#0", "r9", HOSTILE, 2.0, "2026-06-03T00:00:00Z", None, 0.6)
        found = () if "gold" in question.text else (sentence,)
        return replace(ANSWER, answered=bool(found), sentences=found)

    async def view(self, entity_id: str, kind: Any, extent: Any) -> Any:
        self.asked.append((entity_id, kind, extent))
        if entity_id not in ("B00X", ".."):
            return None
        if extent.language not in (None, "de"):
            raise UnknownLanguage(f"language {extent.language!r}: the facets are in en, de")
        dated = msgspec.structs.replace(said("r9#0", HOSTILE), occurred_at="2026-06-03T00:00:00Z")
        pros, cons = [said("r 1/?#0", EASY)], [dated]
        mentions = Mentions(194, Ratings(90, 3.5))
        parking = FacetSummary(
            "parking", 3, 109, 104, Ratings(95, 4.2), pros, mentions=mentions, pros=pros, cons=cons
        )
        place = FacetSummary("place", 3, 9, 1, Ratings(0, None), [said("r5#0", "שלום")])
        noise = FacetSummary(
            "noise", 3, 9, 8, Ratings(0, None), [said("r7#0", LOUD)], pros=pros[:1], cons=[]
        )
        quotes = (
            OverviewSentence(0, "place", 9, "r5#0", "r5", "שלום", None, 0.1),
            OverviewSentence(1, "noise", 9, "r 1/?#0", "r 1/?", EASY, None, 0.1),
            OverviewSentence(2, "noise", 9, "r7#0", "r7", LOUD, None, 0.2),
            OverviewSentence(3, "parking", 9, "r8#0", "r8", LOUD, None, 0.2),
        )
        of_all = Ratings(800, 4.625, self.histogram)
        facets = (parking, noise, place)
        return Overview("B00X", 0, 871, 2594, of_all, 0.8, quotes, facets)

    async def page(self, request: web.Request) -> web.Response:
        name = request.path.lstrip("/") or "index.html"
        text = (EXAMPLE / name).read_text().replace("http://127.0.0.1:8080", self.worker_url)
        if self.attributes:
            text = re.sub(r"data-entity=.* async", self.attributes, text)
        if name.endswith(".css"):
            text = self.style or text
        kind = "text/css" if name.endswith(".css") else "text/html"
        return web.Response(text=text, content_type=kind)


@pytest.fixture
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    made = Shop()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)

    async def serve(application: web.Application) -> TestServer:
        server = TestServer(application)
        await server.start_server()
        return server

    pages = web.Application()
    pages.router.add_get("/{name:.*}", made.page)
    shop = run(serve(pages))
    made.url = str(shop.make_url("/"))
    made.worker.origins = {getattr(request, "param", made.url.rstrip("/"))}
    made.worker.review_url = "https://shop.example/{entity_id}#{review_id}"
    worker = run(serve(made.worker.application()))
    made.worker_url = str(worker.make_url("")).rstrip("/")
    yield made
    run(asyncio.sleep(0.2))  # a connection that the browser has just opened is known to the server
    run(worker.close())
    run(shop.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def shown(tab: Tab) -> str:
    tab.wait(TEXT)
    return " ".join(str(tab.evaluate(TEXT)).split())


def style_of(tab: Tab, name: str, selector: str = "section") -> str:
    return str(tab.evaluate(f"getComputedStyle({ROOT_OF}.querySelector('{selector}')).{name}"))


@pytest.mark.chromium
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "phone"])
def test_it_shows_the_overview_on_a_strict_page(
    shop: Shop, browser: Browser, width: int, dark: bool
) -> None:
    tab = browser.open(shop.url, width, 860, dark=dark)
    text = shown(tab)
    for part in (
        "What buyers say 4.6 of 5 · 871 reviews Ask",
        f"parking 194 mentions, 3.5 of 5 Pros {EASY} ★★★★☆ Read the review Cons",
        f"{HOSTILE} ★★★★☆ Jun 3, 2026 Read the review",
    ):
        assert part in text
    # what is neither stands where one side is empty
    rest = f"noise 8 reviews {LOUD} Read the review Pros {EASY} ★★★★☆ Read the review place"
    assert rest in text
    assert text.count(LOUD) == 1
    assert "place 1 review שלום" in text
    assert tab.evaluate(f"{ROOT_OF}.querySelector('.stars').ariaLabel") == "4.0\xa0of\xa05"
    assert text.index("Pros") < text.index(EASY) < text.index("Cons") < text.index(HOSTILE)
    links = f"[...{ROOT_OF}.querySelectorAll('a')].map((one) => one.href)"
    ids = ("r%201%2F%3F", "r9", "r7", "r%201%2F%3F", "r5")
    assert tab.evaluate(links) == [f"https://shop.example/B00X#{identifier}" for identifier in ids]
    hebrew = f"[...{ROOT_OF}.querySelectorAll('.quotes p')].at(-1)"
    assert tab.evaluate(f"getComputedStyle({hebrew}).direction") == "rtl"
    radius = f"getComputedStyle({ROOT_OF}.querySelector('section')).borderTopLeftRadius"
    assert tab.evaluate(radius) == "12.8px", "the policy has refused its styles"
    assert style_of(tab, "backgroundColor") == (BLACK if dark else WHITE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate("typeof window.hacked") == "undefined"
    assert tab.evaluate("document.cookie") == ""
    tab.call("Page.setBypassCSP", enabled=True)  # for axe, which is no script of the shop
    tab.call("Page.reload")
    shown(tab)
    axe(tab)
    assert tab.complaints == []
    tab.close()


@pytest.mark.chromium
def test_language_theme_and_words(shop: Shop, browser: Browser) -> None:
    words = '{"mentions": "Erwähnungen", "parking": "Parken", "reviews": "Bewertungen"}'
    shop.attributes = f"data-entity='B00X' data-language=de data-theme=dark data-words='{words}'"
    tab = browser.open(shop.url)
    text = shown(tab)
    assert "871 Bewertungen Parken 194 Erwähnungen" in text
    assert shop.asked[-1][2].language == "de"
    assert style_of(tab, "backgroundColor") == BLACK
    assert tab.console == []
    tab.close()


@pytest.mark.chromium
def test_it_is_light_where_the_page_is_and_takes_its_colours(shop: Shop, browser: Browser) -> None:
    """A reader who prefers dark sees no dark card on the white page of a shop."""
    shop.style = "body { color: black; }"
    tab = browser.open(shop.url, dark=True)
    shown(tab)
    assert style_of(tab, "backgroundColor") == WHITE
    tab.close()
    shop.style = """main { --coversumm-ink: rgb(1, 2, 3); --coversumm-paper: rgb(250, 251, 252);
        --coversumm-accent: rgb(9, 8, 7); --coversumm-font: Georgia, serif; }"""
    tab = browser.open(shop.url, dark=True)
    shown(tab)
    assert style_of(tab, "backgroundColor") == "rgb(250, 251, 252)"
    assert style_of(tab, "color") == "rgb(1, 2, 3)"
    assert style_of(tab, "fontFamily") == "Georgia, serif"
    assert style_of(tab, "color", ".stars") == "rgb(9, 8, 7)"
    tab.close()


@pytest.mark.chromium
def test_attributes_that_cannot_be_used_are_named(shop: Shop, browser: Browser) -> None:
    """Each in the console, and the widget is there without them."""
    shop.attributes = "data-entity=B00X data-theme=sepia data-words={ data-language=xx"
    tab = browser.open(shop.url)
    text = shown(tab)
    assert "871 reviews" in text
    console = "\n".join(tab.console)
    assert re.findall(r"widget\.js: B00X: (\S+) ", console) == [
        "data-words", "data-language:", "data-theme",
    ]  # fmt: skip
    assert "the facets are in en, de" in console
    assert shop.asked[-1][2].language is None
    tab.close()


@pytest.mark.chromium
def test_ratings_above_five_are_not_of_five(shop: Shop, browser: Browser) -> None:
    shop.histogram = {"9.5": 700, "4": 100}
    shop.attributes = "data-entity='..'"  # which no path may have
    tab = browser.open(shop.url)
    text = shown(tab)
    assert "★ 4.6 · 871 reviews" in text
    assert "194 mentions, ★ 3.5" in text
    assert "of 5" not in text
    assert shop.asked[-1][0] == ".."
    tab.close()


@pytest.mark.chromium
def test_a_question_is_answered_by_sentences(shop: Shop, browser: Browser) -> None:
    """Or by "nobody says so"; if the worker has no time, it is said so and asked again."""
    tab = browser.open(shop.url)
    shown(tab)
    field, answers = f"{ROOT_OF}.querySelector('input')", f"{ROOT_OF}.querySelector('form ~ div')"
    assert tab.evaluate(f"{field}.placeholder") == "Is it bright enough to read?"
    for question, status, expected in (
        ("Is it & loud?", "1 answer", f"{HOSTILE} ★★☆☆☆ Jun 3, 2026 Read the review"),
        ("Is it gold?", "Nobody says so", ""),
        ("busy", "No answer now", ""),
        ("Is it loud?", "1 answer", f"{HOSTILE} ★★☆☆☆ Jun 3, 2026 Read the review"),
    ):
        tab.evaluate(f"{field}.focus(); {field}.select()")
        tab.call("Input.insertText", text=question)
        tab.press("Enter", 13)
        tab.wait(f"{ANSWERED} === '{status}'")
        assert " ".join(tab.evaluate(f"{answers}.innerText").split()) == expected
        assert shop.questions[-1] == question
    assert "too many questions are asked" in tab.console[0]
    assert tab.evaluate("location.href") == shop.url
    tab.call("Page.setBypassCSP", enabled=True)
    axe(tab)
    tab.close()
    shop.attributes = "data-entity=B00X"
    tab = browser.open(shop.url)
    shown(tab)
    assert tab.evaluate(f"{field} === null"), "there is a field that its attribute does not ask for"
    tab.close()


@pytest.mark.chromium
def test_with_the_worker_away_the_page_is_complete(shop: Shop, browser: Browser) -> None:
    shop.worker_url = "http://127.0.0.1:9"
    tab = browser.open(shop.url)
    assert "Delivery in two days." in tab.text()
    assert tab.evaluate(f"{ROOT_OF} === undefined")
    tab.close()


@pytest.mark.chromium
@pytest.mark.parametrize(
    ("shop", "entity", "why"),
    [
        ("*", "nobody", "there is no such entity"),
        ("*", "", "data-entity is missing"),
        ("https://another.example", "B00X", "its COVERSUMM_WEB_ORIGINS does not name {origin}"),
    ],
    indirect=["shop"],
    ids=["unknown entity", "no entity", "unknown origin"],
)
def test_without_an_answer_the_page_is_complete_without_it(
    shop: Shop, browser: Browser, entity: str, why: str
) -> None:
    """The console says why, and names the setting."""
    shop.attributes = f"data-entity={entity}"
    tab = browser.open(shop.url)
    eventually(lambda: tab.evaluate("1") and tab.console)
    (message,) = tab.console
    assert why.format(origin=shop.url.rstrip("/")) in message
    assert any("/summary?" in url for url in tab.requested) == bool(entity)
    assert tab.evaluate(f"{ROOT_OF} === undefined")
    assert "Desk lamp" in tab.text()
    tab.close()


def test_an_address_of_reviews_is_data() -> None:
    """Quotes in it cannot end the text that it is in."""
    site = Site()
    site.review_url = 'https://a/";alert(1)//{review_id}'
    ((_, _, text),) = get(site, "/widget.js")
    assert 'const REVIEW_URL = "https://a/\\";alert(1)//{review_id}";' in text
    assert len(text.encode()) <= 8_000


def test_a_browser_that_has_the_file_does_not_load_it_again() -> None:
    async def load(client: TestClient[Any, Any], _: TestServer) -> None:
        for path in ("/widget.js", "/page/dom.js"):
            async with client.get(path) as first:
                tag, body = first.headers["ETag"], await first.read()
            assert body
            for known, status in ((tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"x"', 200)):
                async with client.get(path, headers={"If-None-Match": known}) as again:
                    assert again.status == status
                    assert again.headers["ETag"] == tag
                    assert await again.read() == (b"" if status == 304 else body)
                    assert again.headers["Cache-Control"] == "no-cache"

    served(load, Site())
