"""The widget on a page of another origin, under the strict policy of the example, in Chromium."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from docs.build.render import ROOT
from tests.harness.browser import Browser, Tab
from tests.harness.eventually import eventually
from tests.harness.page_site import Site, get
from tests.harness.patience import PATIENCE_SECONDS
from tests.web.page.test_browser import EASY, axe, said
from worker.events import FacetSummary, Ratings
from worker.events.outputs import Mentions
from worker.processing.entity_view import Overview, OverviewSentence

EXAMPLE = ROOT / "deploy" / "examples" / "widget"
HOSTILE = "<img src=x onerror=alert(1)><script>window.hacked = 1</script>"
LOUD = "It is quite loud, though."
ROOT_OF = "document.querySelector('script + div')?.shadowRoot"
TEXT = f"[...({ROOT_OF}?.querySelectorAll('section') ?? [])].map((one) => one.innerText).join('')"


class Shop:
    """A worker, and the example's page at another origin."""

    def __init__(self) -> None:
        self.worker = Site()
        self.worker.state.view = self.view
        self.asked: list[Any] = []
        self.attributes = ""
        self.url = self.worker_url = ""

    async def view(self, entity_id: str, kind: Any, extent: Any) -> Any:
        self.asked.append((entity_id, kind, extent))
        if entity_id != "B00X":
            return None
        pros, cons = [said("r 1/?#0", EASY)], [said("r9#0", HOSTILE)]
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
        of_all = Ratings(800, 4.625)
        facets = (parking, noise, place)
        return Overview("B00X", 0, 871, 2594, of_all, 0.8, quotes, facets)

    async def page(self, request: web.Request) -> web.Response:
        name = request.path.lstrip("/") or "index.html"
        text = (EXAMPLE / name).read_text().replace("http://127.0.0.1:8080", self.worker_url)
        text = text.replace('data-entity="B00X"', self.attributes or 'data-entity="B00X"')
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


@pytest.mark.chromium
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["wide", "phone"])
def test_it_shows_the_overview_on_a_strict_page(
    shop: Shop, browser: Browser, width: int, dark: bool
) -> None:
    tab = browser.open(shop.url, width, 860, dark=dark)
    text = shown(tab)
    for part in ("★ 4.6 871 reviews", "parking 194 mentions · in reviews with ★ 3.5 Pros"):
        assert part in text
    # what is neither stands where one side is empty
    assert f"noise 8 reviews {LOUD} Read the review Pros {EASY} Read the review place" in text
    assert text.count(LOUD) == 1
    assert "place 1 review שלום" in text
    assert text.index("Pros") < text.index(EASY) < text.index("Cons") < text.index(HOSTILE)
    links = f"[...{ROOT_OF}.querySelectorAll('a')].map((one) => one.href)"
    ids = ("r%201%2F%3F", "r9", "r7", "r%201%2F%3F", "r5")
    assert tab.evaluate(links) == [f"https://shop.example/B00X#{one}" for one in ids]
    hebrew = f"[...{ROOT_OF}.querySelectorAll('.quotes p')].at(-1)"
    assert tab.evaluate(f"getComputedStyle({hebrew}).direction") == "rtl"
    radius = f"getComputedStyle({ROOT_OF}.querySelector('section')).borderTopLeftRadius"
    assert tab.evaluate(radius) == "12.8px", "the policy has refused its styles"
    back = f"getComputedStyle({ROOT_OF}.querySelector('section')).backgroundColor"
    assert tab.evaluate(back) == ("rgb(26, 28, 34)" if dark else "rgb(255, 255, 255)")
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
    back = f"getComputedStyle({ROOT_OF}.querySelector('section')).backgroundColor"
    assert tab.evaluate(back) == "rgb(26, 28, 34)"
    tab.close()


@pytest.mark.chromium
@pytest.mark.parametrize(
    ("shop", "entity", "why"),
    [
        ("*", "nobody", "there is no such entity"),
        ("https://another.example", "B00X", "its COVERSUMM_WEB_ORIGINS does not name {origin}"),
    ],
    indirect=["shop"],
    ids=["unknown entity", "unknown origin"],
)
def test_without_an_answer_the_page_is_complete_without_it(
    shop: Shop, browser: Browser, entity: str, why: str
) -> None:
    """The console says why, and names the setting."""
    shop.attributes = f"data-entity={entity}"
    tab = browser.open(shop.url)
    tab.wait("performance.getEntriesByType('resource').some((one) => /summary/.test(one.name))")
    eventually(lambda: tab.evaluate("1") and tab.console)
    (message,) = tab.console
    assert why.format(origin=shop.url.rstrip("/")) in message
    assert tab.evaluate(f"{ROOT_OF} === undefined")
    assert "Desk lamp" in tab.text()
    tab.close()


def test_an_address_of_reviews_is_data() -> None:
    """Quotes in it cannot end the text that it is in."""
    site = Site()
    site.review_url = 'https://a/";alert(1)//{review_id}'
    ((_, _, text),) = get(site, "/widget.js")
    assert 'const REVIEW_URL = "https://a/\\";alert(1)//{review_id}";' in text
