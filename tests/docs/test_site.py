"""The documentation as a site: it has every page, no link of it is broken, it loads nothing
from other sites, and its search needs no server.
"""

from __future__ import annotations

import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from docs.build.render import ROOT
from tests.docs.test_pages import PAGES
from tests.harness.browser import Browser
from tests.harness.patience import PATIENCE_SECONDS
from worker import __version__

SITE = ROOT / ".cache" / "site" / ".ready"
REPOSITORY = "https://example.com/coversumm-worker"
LOADING = {"script", "img", "iframe", "source", "video", "audio", "embed", "input", "track"}
LINKS_LOADING = {"stylesheet", "preload", "modulepreload", "icon", "preconnect", "prefetch"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout
    return folder


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make site` does."""
    return subprocess.run(
        [SITE.parent / "bin" / "python", "-m", "docs.build.site", folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "REPOSITORY": REPOSITORY},
    )


class Loads(HTMLParser):
    """The addresses that a page loads, and those that it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.linked.append(of.get("href", ""))
        elif tag in LOADING or (tag == "link" and set(of.get("rel", "").split()) & LINKS_LOADING):
            self.loaded += [of[name] for name in ("src", "href") if name in of]


def test_every_page_has_its_place() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    places = [place for section in nav for pages in section.values() for place in pages]
    labels = {page: label for place in places for label, page in place.items()}
    assert sorted(labels) == [path.relative_to(ROOT).as_posix() for path in PAGES]
    assert len(labels) == len(places) == len(set(labels.values()))
    assert [label for label in labels.values() if len(label.split()) > 2] == []


@pytest.mark.site
def test_nothing_is_loaded_from_elsewhere_and_every_link_leads_to_a_file(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        if page.name == "404.html":  # its links begin at the root of a server
            continue
        found = Loads()
        found.feed(page.read_text("utf-8"))
        assert found.loaded
        assert REPOSITORY in found.linked
        assert f"coversumm-worker {__version__}" in page.read_text("utf-8")
        for address in found.loaded + found.linked:
            if re.match(r"https?:|mailto:", address) and address in found.linked:
                continue
            path = address.partition("#")[0].partition("?")[0]
            assert (page.parent / path).exists(), (page.relative_to(site), address)
    for style in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?!data:)[a-z]*:?//|@import", style.read_text("utf-8")) == []


@pytest.mark.site
@pytest.mark.chromium
def test_it_is_searched_from_files(site: Path, tmp_path: Path) -> None:
    """By a real browser, which loads nothing but files."""
    with Browser(tmp_path) as browser:
        if (SITE.parent / "mermaid.min.js").exists():  # npm was there
            drawing = browser.open((site / "docs" / "architecture.html").as_uri())
            drawing.wait("document.querySelector('div.mermaid')?.offsetHeight > 20")
        tab = browser.open((site / "index.html").as_uri())
        tab.evaluate(
            "(() => { document.querySelector('[for=__search]').click(); const field = "
            "document.querySelector('.md-search__input'); field.focus(); field.value = "
            "'tombstone'; field.dispatchEvent(new Event('keyup', {bubbles: true})); "
            "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )
        tab.wait("document.querySelector('.md-search-result__link') !== null")
        assert tab.evaluate("document.querySelector('.md-search-result__link').href").startswith(
            site.as_uri()
        )
        loaded = tab.evaluate(
            "[...document.querySelectorAll('script[src], link[rel=stylesheet], iframe[src], img')]"
            ".map((one) => one.src || one.href)"
        )
        assert len(loaded) > 3
        assert [url for url in loaded if not url.startswith(("file:", "data:"))] == []
        assert tab.complaints == []
        algorithm = browser.open((site / "docs" / "algorithm.html").as_uri())
        assert algorithm.evaluate("document.querySelectorAll('math').length") > 100
        assert algorithm.evaluate("document.querySelectorAll('.arithmatex').length") == 0
