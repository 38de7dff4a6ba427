"""An OpenAI-compatible endpoint on 127.0.0.1 whose answers a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Call(NamedTuple):
    """A request: its headers, its body, and the quotes in it, by id."""

    headers: dict[str, str]
    body: dict[str, Any]
    quoted: dict[str, str]


def content(*ids: list[str]) -> str:
    """An answer of a sentence for each of these lists of ids."""
    return json.dumps({"sentences": [{"text": f"It rests on {one}.", "ids": one} for one in ids]})


def good(call: Call) -> str:
    """The answer that was asked for."""
    some = sorted(call.quoted)
    return content(some[:1], some[-2:], some)


class LanguageModel:
    """Listens while it is entered. `answer` gives the message of a call by its number, from 0;
    None: 503. `after` runs when the reply was sent.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answer: Callable[[int, Call], str | None] = lambda _, call: good(call)
        self.after: Callable[[int], None] = lambda _: None
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                call = Call(dict(self.headers), body, json.loads(body["messages"][-1]["content"]))
                number = len(model.calls)
                model.calls.append(call)
                told = model.answer(number, call)
                message = {"role": "assistant", "content": told}
                reply = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
                self.send_response(503 if told is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)
                model.after(number)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
