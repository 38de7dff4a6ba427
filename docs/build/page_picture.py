"""`python -m docs.build.page_picture`: draws docs/page.png, the page of README's stay with the
numbers of README, by `serve` and Chromium.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote
from urllib.request import urlopen

from docs.build.render import ROOT
from tests.harness.browser import Browser
from worker.demo.reviews import FACETS, reviews_file
from worker.web.server import free_port

STAY, REVIEWS = "abnb:25549565", 871
MOST_SECONDS = 1800  # to embed all reviews, on a busy machine too


def main() -> int:
    """Serve the bundled reviews, wait for the last of the stay, and take the picture."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "worker", "serve", str(reviews_file()), "--facets", FACETS]
    environment = os.environ | {"COVERSUMM_WEB_PORT": str(port)}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as served:
        try:
            _wait(f"http://127.0.0.1:{port}/entities/{quote(STAY)}/summary", served)
            with (
                TemporaryDirectory(ignore_cleanup_errors=True) as folder,
                Browser(Path(folder)) as browser,
            ):
                tab = browser.open(f"http://127.0.0.1:{port}/#/entity/{quote(STAY)}")
                for text in (f"{REVIEWS} reviews", "mentions"):  # its counts, then its overview
                    tab.wait(f"document.body.innerText.includes('{text}')")
                tab.picture(ROOT / "docs" / "page.png")
        finally:
            served.terminate()
    return 0


def _wait(url: str, served: subprocess.Popen[bytes]) -> None:
    """Until all reviews of the stay are counted. Raises SystemExit if that takes too long."""
    give_up = time.monotonic() + MOST_SECONDS
    while time.monotonic() < give_up and served.poll() is None:
        with suppress(OSError), urlopen(url, timeout=30) as answer:  # noqa: S310 - this machine
            if json.load(answer)["review_count"] == REVIEWS:
                return
        time.sleep(1)
    raise SystemExit(f"{STAY} has not {REVIEWS} reviews after {MOST_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
