"""The live page in a real Chromium, on two workers: searched, watched while summaries change and
partitions move; hostile texts.

The pictures are in the test's folder, or where PAGE_PICTURES says: `make page-pictures` puts two of
them into the documentation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.harness.broker import KafkaBroker
from tests.harness.browser import Browser, Tab
from tests.harness.load import EngineVectors, Review, Sent, read_reviews, send
from tests.harness.patience import TEST_SECONDS
from tests.harness.workers import Pipeline, WorkerProcess, pipeline
from worker.facets.definitions import read_definitions
from worker.kafka.topics import partition_of

pytestmark = [pytest.mark.kafka, pytest.mark.chromium, pytest.mark.timeout(TEST_SECONDS)]

PARTITIONS = 4
SETTINGS = {
    "COVERSUMM_DIMENSION": "384",
    "COVERSUMM_K": "6",
    "COVERSUMM_MAX_SENTENCE_CHARS": "20000",
    "COVERSUMM_SESSION_TIMEOUT_MS": "6000",
    "COVERSUMM_TRANSACTION_TIMEOUT_MS": "5000",
}
STAY = "abnb:25549565"
HOSTILE_ID = "<img src=x onerror=alert(1)>/../%2F'\"\u202e\U0001f3e8"
HOSTILE = (
    "<img src=x onerror='window.hacked=1'><script>window.hacked=2</script>",
    "</p></li><style>*{display:none}</style><svg onload=window.hacked=3>",
    "javascript:window.hacked=4 &lt;b&gt; &amp;amp; {{7*7}} ${7*7}",
    "\u202eesrever\u202c \u2067\u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0633\u0644\u0627\u0645\u2069 "
    "end",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f1e9\U0001f1ea e"
    + "\u0301" * 40,
    "a" * 10_240,
)


def facets_file(path: Path, vectors: EngineVectors) -> Path:
    """Those of stays, by vectors, and the newest reviews."""
    facets = [("newest", "newest = 1")]
    for facet in read_definitions("preset:stays").facets:
        phrases = json.dumps([vectors.of(phrase) for phrase in facet.phrases or ()])
        words = (
            f"words = {json.dumps(facet.words['en'])}\n" if isinstance(facet.words, Mapping) else ""
        )
        rest = f"vectors = {phrases}\n{words}hidden = {json.dumps(facet.hidden)}"
        facets.append((facet.name, rest))
    path.write_text("".join(f'[[facet]]\nname = "{name}"\n{rest}\n' for name, rest in facets))
    return path


def event(review: Review, vectors: EngineVectors) -> Sent:
    """As an upstream that embeds sends it."""
    sentences = [
        {"text": sentence, "embedding": vectors.of(sentence)} for sentence in review.sentences
    ]
    body = {
        "type": "review.upserted",
        "entity_id": review.entity_id,
        "review_id": review.review_id,
        "rating": review.rating,
        "occurred_at": review.occurred_at,
        "sentences": sentences,
    }
    return Sent(review.entity_id.encode(), json.dumps(body).encode())


def loud(entity_id: str, number: int, text: str, vectors: EngineVectors, copies: int = 400) -> Sent:
    """A review that says one thing so often that it must come into the summary."""
    vector = vectors.of("Great place to stay.")
    body = {
        "type": "review.upserted",
        "entity_id": entity_id,
        "review_id": f"!{9 - number}",  # of equal vectors the later review comes first
        "occurred_at": f"2026-11-0{number}T12:00:00Z",
        "sentences": [{"text": text, "embedding": vector}] * copies,
    }
    return Sent(entity_id.encode(), json.dumps(body).encode())


@pytest.fixture(scope="module")
def reviews() -> list[Review]:
    """Of three stays, in order of time."""
    chosen = [review for review in read_reviews(limit=900) if review.entity_id[-1] in "359"][:240]
    return sorted(chosen, key=lambda review: review.occurred_at or "")


@pytest.fixture(scope="module")
def vectors(reviews: list[Review]) -> EngineVectors:
    return EngineVectors(reviews)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return Path(os.environ.get("PAGE_PICTURES", tmp_path))


def entities_of(worker: WorkerProcess) -> list[str]:
    """Those that the worker itself has; it looks for a moment only, and tells how to go on."""
    found: list[str] = []
    query = ""
    while True:
        with worker.get(f"/entities{query}") as answer:
            page = json.load(answer)
        found += [entity["entity_id"] for entity in page["entities"]]
        if page["after"] is None:
            return found
        query = f"?after={quote(page['after'], safe='')}"


def shown(tab: Tab) -> list[str]:
    """The texts of the summary on the page."""
    found = tab.evaluate(
        "[...document.querySelectorAll('.sentences li .quoted')].map((one) => one.textContent)"
    )
    assert isinstance(found, list)
    return found


def summary(worker: WorkerProcess, entity_id: str) -> Any:
    with worker.get(f"/entities/{quote(entity_id, safe='')}/summary") as answer:
        return json.load(answer)


def facts(tab: Tab) -> dict[str, dict[str, str]]:
    """By sentence id what the page says of it."""
    found = tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.sentences li')].map((one) => "
        "[one.title, Object.fromEntries("
        "[...one.querySelectorAll('dl div')].map((fact) => [...fact.children].map((part) => "
        "part.textContent)))]))"
    )
    assert isinstance(found, dict)
    return found


def opened(tab: Tab, entity_id: str) -> None:
    """Its own view: the first page shows an entity as well, below a smaller heading."""
    tab.wait(f"document.querySelector('h1')?.textContent === {json.dumps(entity_id)}")
    live(tab)


def live(tab: Tab) -> None:
    tab.wait("document.querySelector('.state')?.textContent === 'live'")


def is_its_own(tab: Tab, worker: WorkerProcess) -> None:
    """It asked nobody else for anything, and nothing went wrong in it."""
    own = f"http://127.0.0.1:{worker.web_port}/"
    assert [url for url in tab.requested if not url.startswith(own)] == []
    assert tab.complaints == []


def start(
    site: Pipeline, reviews: list[Review], vectors: EngineVectors
) -> tuple[WorkerProcess, WorkerProcess]:
    """Two workers that have read the reviews."""
    first, second = (site.worker(instance_id=f"worker-{number}").start() for number in range(2))
    for worker in (first, second):
        worker.wait_ready()
    send(
        site.broker.bootstrap_servers,
        site.input_topic,
        [event(review, vectors) for review in reviews],
    )
    site.wait_caught_up()
    return first, second


def ask(worker: WorkerProcess, entity_id: str, query: str) -> dict[str, Any]:
    """The answer to a question, without when it was given."""
    with worker.get(f"/entities/{quote(entity_id, safe='')}/ask?{query}") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def shows_facets(tab: Tab, worker: WorkerProcess, entity_id: str) -> None:
    """Those that the entity has, as the worker that has it answers, with the change of the newest
    review.
    """
    tab.click(".views button[value=facets]")
    with worker.get(f"/entities/{quote(entity_id, safe='')}/facets") as answer:
        view = json.load(answer)
    has = [
        facet
        for facet in view["facets"]
        if facet["sentence_count"] or facet["mentions"]["review_count"]
    ]
    wanted = [[sentence["text"] for sentence in facet["sentences"]] for facet in has]
    assert any(wanted)
    tab.wait(f"document.querySelectorAll('.facets > li').length === {len(wanted)}")
    texts = "[...one.querySelectorAll('.sentences .quoted')].map((p) => p.textContent)"
    rows = f"[...document.querySelectorAll('.facets > li')].map((one) => {texts})"
    assert tab.evaluate(rows) == wanted
    tab.wait("document.querySelector('.facets .came') !== null")
    assert "newest · review " in tab.text(".changes:not(.facets *)")
    tab.click(".views button[value=ranking]")


@pytest.mark.long
def test_searched_watched_and_handed_over(
    kafka: KafkaBroker,
    tmp_path: Path,
    browser: Browser,
    reviews: list[Review],
    vectors: EngineVectors,
    pictures: Path,
) -> None:
    """All of it on the page of the worker that does not have the entity: then the other one is
    killed.
    """
    names = [f"stay-{number}" for number in range(8)]
    load = reviews + [review._replace(entity_id=name) for name in names for review in reviews[:3]]
    facets = facets_file(tmp_path / "facets.toml", vectors)
    settings = SETTINGS | {"COVERSUMM_FACETS": str(facets), "COVERSUMM_MAX_SENTENCE_CHARS": "2000"}
    with pipeline(kafka, "page", tmp_path, partitions=PARTITIONS, settings=settings) as site:
        asked, owner = start(site, load, vectors)
        here, there = entities_of(asked), entities_of(owner)
        assert here
        assert there
        tab = browser.open(f"http://127.0.0.1:{asked.web_port}/")
        everything = {*names, *(review.entity_id for review in reviews)}
        tab.wait(f"document.querySelectorAll('#found li').length === {len(everything)}")
        assert {*here, *there} == everything
        live(tab)

        tab.type("#contains", "abnb")  # searched
        tab.wait(
            "[...document.querySelectorAll('#found li')].every((one) => "
            "one.innerText.includes('abnb'))"
        )
        tab.type("#contains", "nowhere")
        tab.wait("document.querySelector('#notice').textContent === 'No id contains “nowhere”.'")
        tab.type("#contains", "")
        tab.wait(f"document.querySelectorAll('#found li').length === {len(everything)}")

        # another worker's
        entity = max(
            there, key=lambda identifier: sum(review.entity_id == identifier for review in load)
        )
        tab.click(f"a[data-id={json.dumps(entity)}]")
        opened(tab, entity)
        tab.click(".views summary")  # More
        tab.click(".views button[value=ranking]")
        tab.wait("document.querySelectorAll('.sentences li').length === 6")
        answer = summary(asked, entity)
        assert shown(tab) == [sentence["text"] for sentence in answer["sentences"]]
        tab.wait("document.querySelectorAll('.chart .bar.still').length === 6")
        said = facts(tab)
        for listed in answer["sentences"]:
            fact = said[listed["sentence_id"]]
            assert fact["distance"] == f"{listed['distance']:.3f}"
            date = json.dumps(listed["occurred_at"])
            moment = (  # the sample's reviews have a day
                f"new Date({date}).toLocaleDateString([], {{dateStyle: 'medium', timeZone: 'UTC'}})"
            )
            assert fact.get("date") == tab.evaluate(moment)
        assert tab.evaluate("document.querySelectorAll('.changes li').length") > 1
        for listed in (STAY, entity):
            tab.evaluate(f"location.hash = '#/entity/{quote(listed)}?view=ranking'")
            opened(tab, listed)
            tab.wait("document.querySelectorAll('.chart .bar.still').length === 6")
            if listed == STAY:
                tab.click(".views button[value=overview]")
                tab.wait("document.querySelectorAll('.overview > li blockquote').length > 5")
                tab.picture(pictures / "page.png")
                tab.click(".views button[value=ranking]")  # `entity` may be this one
        tab.click(".views button[value=short]")  # the short view
        tab.wait("document.querySelector('.sentences')?.innerText.includes('stands for')")
        tab.click(".views button[value=ranking]")

        send(
            kafka.bootstrap_servers,
            site.input_topic,
            [loud(entity, 1, "Suddenly, all say this.", vectors)],
        )
        tab.wait(
            "document.querySelector('.sentences')?.innerText.includes('Suddenly, all say this.')"
        )  # live
        assert "Suddenly, all say this." in tab.text(".changes")
        shows_facets(tab, asked, entity)
        query = urlencode({"vector": vectors.of("Great place to stay."), "sentences": "3"})
        answers = [ask(worker, entity, query) for worker in (asked, owner)]
        assert answers[0] == answers[1]
        assert answers[0]["sentences"][0]["text"] == "Suddenly, all say this."
        assert tab.evaluate("performance.getEntriesByType('navigation').length") == 1

        owner.kill()
        tab.wait("document.querySelector('.state').className.includes('waiting')")
        tab.wait("document.querySelector('.problem').innerText.includes('does not answer')")
        live(tab)  # handed over
        tab.wait("document.querySelector('.problem').hidden")
        send(kafka.bootstrap_servers, site.input_topic, [loud(entity, 2, "And now this.", vectors)])
        tab.wait("document.querySelector('.sentences')?.innerText.includes('And now this.')")
        site.wait_caught_up()
        assert shown(tab) == [sentence["text"] for sentence in summary(asked, entity)["sentences"]]

        owner.start().wait_ready()
        deleted = Sent(entity.encode(), None)
        send(kafka.bootstrap_servers, site.input_topic, [deleted])
        tab.wait("/deleted|no entity/.test(document.querySelector('.problem').innerText)")
        is_its_own(tab, asked)
        tab.close()
        site.stop()


@pytest.mark.long
def test_hostile_texts_and_ids(
    kafka: KafkaBroker,
    tmp_path: Path,
    browser: Browser,
    vectors: EngineVectors,
    reviews: list[Review],
    pictures: Path,
) -> None:
    """They are shown as they are, run nothing, and break no line; on a phone, in the dark."""
    some = [review for review in reviews if review.entity_id == reviews[0].entity_id]
    with pipeline(kafka, "hostile-page", tmp_path, partitions=1, settings=SETTINGS) as site:
        load = [event(review, vectors) for review in some[:60]]
        for number, text in enumerate(HOSTILE):
            hostile = Review(
                HOSTILE_ID, f"<b>{number}</b>", 5.0, "2026-11-20T12:00:00Z", text
            )._replace(text="x")
            body = json.loads(event(hostile, vectors).value or b"")
            body["sentences"] = [{"text": text, "embedding": vectors.of(some[number].sentences[0])}]
            load.append(Sent(HOSTILE_ID.encode(), json.dumps(body).encode()))
        worker = site.worker(instance_id="worker-0").start()
        worker.wait_ready()
        send(kafka.bootstrap_servers, site.input_topic, load)
        site.wait_caught_up()
        url = f"http://127.0.0.1:{worker.web_port}/"
        ranking = f"#/entity/{quote(HOSTILE_ID, safe='')}?view=ranking"
        tab = browser.open(f"{url}{ranking}", 390, 844, dark=True)
        live(tab)
        tab.wait("document.querySelectorAll('.sentences li').length === 6")
        answer = summary(worker, HOSTILE_ID)
        assert shown(tab) == [sentence["text"] for sentence in answer["sentences"]]
        assert set(shown(tab)) == set(HOSTILE)
        assert tab.evaluate("document.querySelector('h1').textContent") == HOSTILE_ID
        tab.wait("document.querySelectorAll('.chart .row').length >= 6")
        tab.evaluate("new Promise((done) => setTimeout(done, 300))")
        assert tab.evaluate("typeof window.hacked") == "undefined"
        assert (
            tab.evaluate(
                "document.querySelectorAll('main img, main script, main style, main iframe').length"
            )
            == 0
        )
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 23)"
        refused = tab.evaluate(
            "try { document.body.innerHTML = '<p>x</p>'; 'taken' } catch (error) { error.name }"
        )
        assert refused == "TypeError"  # trusted types: not even the page itself can parse markup
        tab.complaints.clear()
        tab.picture(pictures / "page-hostile.png")
        for path, word in (
            ("nobody", "There is no entity “"),
            ("%ff", "Latest changes"),
            ("a%00b", "There is no entity “"),
        ):
            tab.evaluate(f"location.hash = '#/entity/{path}'")
            tab.wait(f"document.querySelector('#shown').innerText.includes({json.dumps(word)})")
        tab.evaluate(f"location.hash = '#/entity/{quote(some[0].entity_id)}?view=ranking'")
        live(tab)
        tab.wait("document.querySelectorAll('.sentences li').length === 6")
        tab.wait("document.querySelectorAll('.chart .bar.still').length === 6")
        tab.picture(pictures / "page-phone.png")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        is_its_own(tab, worker)
        # A browser keeps six connections to a worker: of more tabs each is seen all the same,
        # because hidden ones follow nothing.
        own = f"{url}#/entity/{quote(some[0].entity_id)}?view=ranking"
        many = [browser.open(own) for _ in range(8)]
        for each in (*many, many[0]):
            each.call("Page.bringToFront")
            live(each)
            each.wait("document.querySelectorAll('.sentences li').length === 6")
        for each in (tab, *many):
            each.close()
        site.stop()


@pytest.mark.long
def test_which_partition_a_stay_is_in() -> None:
    """The first test wants entities on both workers."""
    assert len({partition_of(f"stay-{number}", PARTITIONS) for number in range(8)}) > 2
