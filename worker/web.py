"""HTTP, on Faust's web server: health, readiness, metrics, and an entity's summary from whichever worker owns it. Read-only."""

import socket
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp.web import HTTPTemporaryRedirect, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from worker.errors import SurroundingsError
from worker.stream.status import WorkerState


def install_web(app: Any, state: WorkerState) -> None:
    """Add the worker's views to the app's web server."""
    views = _Views(state)
    router = app.web.web_app.router
    router.add_get("/healthz", views.healthz)
    router.add_get("/readyz", views.readyz)
    router.add_get("/metrics", views.metrics)
    router.add_get("/entities/{entity_id}/summary", views.summary)
    state.metrics.watch(lambda: state.ready()[0], state.lag)


def check_port(bind: str, port: int) -> None:
    """Raise SurroundingsError when the web server could not listen there."""
    try:
        family, *_rest, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as cause:
        raise SurroundingsError(
            f"the web server cannot listen on {bind}:{port} ({cause.strerror}): set COVERSUMM_WEB_PORT or COVERSUMM_WEB_BIND"
        ) from cause


class _Views:
    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def healthz(self, _request: Request) -> Response:
        """200 while the event loop answers; a worker that stands still otherwise ends itself (`worker.stream.watchdog`)."""
        return Response(text="ok\n")

    async def readyz(self, _request: Request) -> Response:
        """200 while partitions are processed, 503 with the reason otherwise."""
        ready, reason = self._state.ready()
        return Response(text=reason + "\n", status=200 if ready else 503)

    async def metrics(self, _request: Request) -> Response:
        """Prometheus' text format."""
        return Response(body=self._state.metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def summary(self, request: Request) -> Response:
        """200 with the summary; 404 unknown entity; 307 to the owner; 503 while no owner is known or it restores."""
        entity_id = request.match_info["entity_id"]
        here, owner = self._state.owner_of(entity_id)
        if not here:
            if owner is None:
                return _problem(503, "no worker owns the entity's partition at the moment, try again")
            raise HTTPTemporaryRedirect(f"{owner.rstrip('/')}/entities/{quote(entity_id, safe='')}/summary")
        view = await self._state.summary(entity_id)
        if view is None:
            return _problem(404, "no such entity")
        return Response(body=msgspec.json.encode(view), content_type="application/json")


def _problem(status: int, detail: str) -> Response:
    return Response(
        body=msgspec.json.encode({"error": detail}), status=status, content_type="application/json"
    )
