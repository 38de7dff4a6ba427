"""An OpenAI-compatible endpoint on 127.0.0.1 whose answers a test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.harness.http_server import Handler, HttpServer


class Call(NamedTuple):
    """A request: its headers, its body, and the quotes in it, by id."""

    headers: dict[str, str]
    body: dict[str, Any]
    quoted: dict[str, str]


def content(*ids: list[str]) -> str:
    """An answer of a sentence for each of these lists of ids."""
    return json.dumps(
        {
            "sentences": [
                {"text": f"It rests on {identifiers}.", "ids": identifiers} for identifiers in ids
            ]
        }
    )


def good(call: Call) -> str:
    """The answer that was asked for."""
    some = sorted(call.quoted)
    return content(some[:1], some[-2:], some)


class LanguageModel(HttpServer):
    """Listens while it is entered. `answer` gives the message of a call by its number, from 0;
    None: 503, a number: this status. `after` runs when the reply was sent.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answer: Callable[[int, Call], str | int | None] = lambda _, call: good(call)
        self.after: Callable[[int], None] = lambda _: None
        model = self

        class Completions(Handler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                call = Call(dict(self.headers), body, json.loads(body["messages"][-1]["content"]))
                number = len(model.calls)
                model.calls.append(call)
                said = model.answer(number, call)
                message = {"role": "assistant", "content": said}
                reply = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
                status = said if isinstance(said, int) else 503 if said is None else 200
                self.reply(status, reply, {"content-type": "application/json"})
                model.after(number)

        super().__init__(Completions)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"{super().url}/v1"
