"""The page in Chromium behind a proxy with a login: below a path, by TLS, with a token that the
proxy alone has.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from tests.harness.browser import Browser
from tests.harness.certificates import Authority
from tests.harness.page_site import Site, change
from tests.harness.patience import PATIENCE_SECONDS
from worker.credentials.files import server_context
from worker.settings import Settings
from worker.state.listing import ListedEntity, Page
from worker.web.admission import with_token
from worker.web.server import Runner

pytestmark = [pytest.mark.chromium, pytest.mark.timeout(PATIENCE_SECONDS)]

PATH, TOKEN = "/reviews", "a-token-of-this-test"


async def proxied(worker: str, authority: Path) -> web.AppRunner:
    """Passes requests below the path on, as they are, with the token."""
    context = ssl.create_default_context(cafile=str(authority))
    client = ClientSession(auto_decompress=False)

    async def pass_on(request: web.Request) -> web.StreamResponse:
        url = URL(worker + request.raw_path, encoded=True)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with client.get(url, headers=headers, ssl=context, allow_redirects=False) as found:
            answer = web.StreamResponse(status=found.status)
            for name in ("Content-Type", "Content-Security-Policy", "Location"):
                if name in found.headers:
                    answer.headers[name] = found.headers[name]
            await answer.prepare(request)
            async for piece in found.content.iter_any():
                await answer.write(piece)
            return answer

    async def close(_application: web.Application) -> None:
        await client.close()

    application = web.Application()
    application.router.add_get(PATH, pass_on)
    application.router.add_get(PATH + "/{rest:.*}", pass_on)
    application.on_cleanup.append(close)
    return await listening(web.AppRunner(application, shutdown_timeout=1))


async def listening(runner: web.AppRunner, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return runner


async def entities(*_: object) -> Page:
    """All of them: the state's own list never ends."""
    return Page([ListedEntity("x", 3, 2, None, 0)], None, 1)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Site, str]]:
    """A worker, and the address of its proxy."""
    authority = Authority(tmp_path, "authority")
    certificate, key = map(str, authority.issue("worker"))
    settings = Settings(web_tls_certificate_location=certificate, web_tls_key_location=key)
    made = Site()
    made.state.entities = entities
    application = made.application(PATH)
    application.middlewares.insert(2, with_token([TOKEN]))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)

    worker = run(listening(Runner(application, PATH), server_context(settings)))
    proxy = run(proxied(f"https://127.0.0.1:{worker.addresses[0][1]}", authority.path))
    yield made, f"http://127.0.0.1:{proxy.addresses[0][1]}{PATH}"
    run(proxy.cleanup())
    run(worker.cleanup())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_page_works_behind_it(site: tuple[Site, str], tmp_path: Path) -> None:
    worker, url = site
    with Browser(tmp_path) as browser:
        tab = browser.open(url)  # without the slash at the end
        tab.wait("document.querySelector('.state')?.textContent === 'live'")
        tab.wait("document.querySelectorAll('#found a').length === 1")
        tab.wait("document.body.innerText.includes('Grün.')")
        worker.feed.committed([change("x")])
        tab.wait("document.querySelectorAll('.changes a').length === 1")
        tab.evaluate("document.querySelector('#found a[data-id=x]').click()")  # wherever it moves
        tab.wait("document.querySelector('h1').textContent === 'x'")
        tab.wait("document.querySelector('.state')?.textContent === 'live'")
        assert tab.evaluate("location.pathname") == f"{PATH}/"
        assert tab.complaints == []
        assert [url_asked for url_asked in tab.requested if not url_asked.startswith(url)] == []
        assert len(tab.requested) > 10
