"""The pages of a running worker, asked for from outside."""

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple
from urllib.parse import urlencode

TIMEOUT_SECONDS = 30.0


LARGEST_ANSWER = 64 * 2**20


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the addresses of a group's workers come from whoever joined it."""

    def redirect_request(self, *_: Any) -> None:
        """The redirect is the answer."""


_opener = urllib.request.build_opener(_Stays)


class Answer(NamedTuple):
    """The status of an answer and its body, a JSON object; an empty one where it is none."""

    status: int
    body: dict[str, Any]

    @property
    def error(self) -> str:
        """Why there is not what was asked for, in the worker's words."""
        return str(self.body.get("error") or self.body.get("reason") or f"status {self.status}")


class NoAnswer(Exception):
    """Nobody answers, or nobody who speaks HTTP and JSON; the message says why."""


def ask(
    url: str, path: str, query: dict[str, str | int | None] | None = None, timeout: float = TIMEOUT_SECONDS
) -> Answer:
    """Ask for a page; None in the query leaves a parameter out. Raises NoAnswer."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    address = f"{url.rstrip('/')}{path}{'?' if given else ''}{urlencode(given)}"
    if not address.startswith(("http://", "https://")):
        raise NoAnswer(f"{url} is not a URL")
    try:
        with _opener.open(address, timeout=timeout) as response:
            return Answer(response.status, _object(response.read(LARGEST_ANSWER)))
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, _object(refusal.read(2**16)))
    except (OSError, ValueError) as cause:
        raise NoAnswer(str(getattr(cause, "reason", cause))) from cause


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
