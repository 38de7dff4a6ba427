"""A real Chromium without a window, driven over its DevTools protocol.

Only what tests of a page need: open it, type, evaluate, wait, take a picture. What a page complains
of is kept: exceptions, dialogs, and everything that its policy refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import aiohttp

from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.process import die_with_parent

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # in a container it cannot set one up
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
T = TypeVar("T")


def program() -> str | None:
    """Chromium's path; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """Chromium with a profile of its own below `directory`; a context manager."""

    def __init__(self, directory: Path) -> None:
        path = program()
        assert path is not None
        profile = directory / "profile"
        self._log = (directory / "chromium.log").open("wb")
        # For its socket, whose folder it leaves when it is killed; a socket's path is short.
        self._temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [path, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "TMPDIR": self._temporary.name},
            preexec_fn=die_with_parent,
        )
        self._loop = asyncio.new_event_loop()
        self._address = self._listening(profile / "DevToolsActivePort")
        self._session = self.run(_session())

    def _listening(self, note: Path) -> str:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            lines = note.read_text().splitlines() if note.exists() else []
            if len(lines) >= 2:
                return f"http://127.0.0.1:{lines[0]}"
            time.sleep(0.05)
        raise AssertionError(f"Chromium does not start: {note.parent.parent / 'chromium.log'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._session.close())
        self._loop.close()
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()
        self._log.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_SECONDS))

    def open(self, url: str, width: int = 1280, height: int = 860, *, dark: bool = False) -> Tab:
        """A page in a window of this size."""
        tab = Tab(self, self.run(self._tab()))
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setEmulatedMedia", features=media)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        tab.call("Emulation.setDeviceMetricsOverride", **size)
        tab.call("Page.navigate", url=url)
        tab.wait("document.readyState === 'complete'")
        return tab

    async def _tab(self) -> aiohttp.ClientWebSocketResponse:
        async with self._session.put(f"{self._address}/json/new?about:blank") as answer:
            target = await answer.json()
        return await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=2**28)


async def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession()


class Tab:
    """One page. `complaints` are what went wrong in it, `requested` the addresses that it asked
    for, `console` what it wrote there.
    """

    def __init__(self, browser: Browser, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._browser = browser
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        self.requested: list[str] = []
        self.console: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command."""
        return self._browser.run(self._call(method, parameters))

    async def _call(self, method: str, parameters: dict[str, Any]) -> Any:
        self._number += 1
        mine = self._number
        await self._socket.send_json({"id": mine, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == mine:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str | None, facts: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(facts["exceptionDetails"]))
        elif event == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {facts['message']}")
        elif event == "Log.entryAdded" and facts["entry"]["source"] in (
            "security",
            "javascript",
            "violation",
        ):
            self.complaints.append(facts["entry"]["text"])
        elif event == "Runtime.consoleAPICalled":
            self.console += [str(arg.get("value")) for arg in facts["args"]]
        elif event == "Network.requestWillBeSent":
            self.requested.append(facts["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {json.dumps(found['exceptionDetails'])[:2000]}")
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """The value of an expression, once it is true."""

        def complaint() -> str:
            text = self.evaluate("document.body.innerText")
            return f"never true: {expression}\n{self.complaints}\n{text[:3000]}"

        return eventually(lambda: self.evaluate(expression), complaint, every_s=0.05)

    def text(self, selector: str = "body") -> str:
        """What a person reads there."""
        return str(
            self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        )

    def type(self, selector: str, text: str) -> None:
        """Put the cursor there and type, in place of what is there."""
        self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.focus(); "
            f"it.select(); }})()"
        )
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Press the mouse there, and let go."""
        place = self.evaluate(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); "
            f"it.scrollIntoView({{block: 'center'}}); "
            "const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + "
            "box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def press(self, key: str, code: int) -> None:
        """Press a key of this name and Windows key code, and let go."""
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def picture(self, path: Path) -> None:
        """What is in the window, as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        )

    def close(self) -> None:
        """It is gone, with its connections."""
        self.call("Page.close")
        self._browser.run(self._socket.close())
