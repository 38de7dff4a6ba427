"""The page itself: the files in `static`, served as they are, under a policy: no other script, nothing loaded from elsewhere."""

from importlib.resources import files
from pathlib import PurePath
from typing import Final

from aiohttp import web

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_KINDS: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def add_files(application: web.Application) -> None:
    """Serve the page at the root and what it consists of below /page, each file read once."""
    for file in files(__package__).joinpath("static").iterdir():
        kind = _KINDS[PurePath(file.name).suffix]
        path = "/" if kind == "text/html" else f"/page/{file.name}"
        application.router.add_get(path, _File(file.read_bytes(), kind).answer)


class _File:
    """One of them."""

    def __init__(self, body: bytes, kind: str) -> None:
        self._body = body
        self._kind = kind

    async def answer(self, _request: web.Request) -> web.Response:
        """The file."""
        return web.Response(body=self._body, content_type=self._kind, charset="utf-8", headers=HEADERS)
