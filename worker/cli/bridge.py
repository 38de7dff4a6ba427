"""`bridge`: write a topic of other keys as events keyed by entity."""

from __future__ import annotations

import asyncio
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli.group import Command
from worker.cli.run import ending_at_sigterm
from worker.errors import SetupError
from worker.settings import Settings
from worker.telemetry.logs import set_up_logging

if TYPE_CHECKING:
    from worker.bridge import Bridge, Bridges
    from worker.telemetry.metrics import Metrics


@click.command(
    "bridge",
    cls=Command,
    examples=[
        (
            "coversumm-worker bridge --mapping mapping.toml --from shop.public.reviews",
            "a table captured by Debezium, for a worker on COVERSUMM_INPUT_TOPIC",
        ),
        ("coversumm-worker bridge --mapping mapping.toml --from reviews,replies", "of two topics"),
    ],
)
@click.option(
    "--mapping",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The mapping; by default COVERSUMM_MAPPING.",
)
@click.option(
    "--from",
    "source",
    required=True,
    multiple=True,
    callback=lambda _context, _option, topics: ",".join(topics),
    metavar="TOPIC[,TOPIC...]",
    help="The topics to read.",
)
def command(file: Path | None, source: str) -> int:
    """Map the records of topics, and write them to COVERSUMM_INPUT_TOPIC as events keyed by entity,
    exactly once, until SIGTERM or Ctrl-C. Records of one source partition stay in order.

    It keeps no state. Any number of processes share the source's partitions; each needs its own
    COVERSUMM_INSTANCE_ID. What does not fit the mapping becomes a dead letter in TOPIC.dlq, which
    is created. The worker behind it reads the contract's events: unset COVERSUMM_MAPPING there.

    Exit codes and probes are those of `run`.
    """
    from worker.bridge import Bridge, Bridges, settings_of_sources
    from worker.kafka.clients import WORKER_LOG, KafkaClients
    from worker.kafka.errors import patiently
    from worker.telemetry.metrics import Metrics

    settings = Settings.from_environment(mapping=None if file is None else str(file))
    if settings.mapping is None:
        raise SetupError("--mapping FILE is missing, and COVERSUMM_MAPPING is not set")
    set_up_logging(settings)
    each = settings_of_sources(settings, source, settings.mapping)
    metrics = Metrics("bridge", settings)
    stopping = threading.Event()
    with ending_at_sigterm():
        made = {
            own.input_topic: Bridge(own, patiently(partial(KafkaClients, own, WORKER_LOG)), metrics)
            for own in each
        }
        bridge = Bridges(made) if len(made) > 1 else next(iter(made.values()))
        serve(settings, bridge, metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        bridge.run(stopping.is_set)
    return 0


def serve(settings: Settings, bridge: Bridge | Bridges, metrics: Metrics) -> None:
    """Serve health, readiness and metrics at the paths of a worker, in a thread of its own.

    Raises SetupError if the address is not available.
    """
    from aiohttp import web

    from worker.credentials.files import server_context
    from worker.telemetry.metrics import CONTENT_TYPE
    from worker.web import server

    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.page(bridge), headers={"Content-Type": CONTENT_TYPE})

    async def readyz(_request: web.Request) -> web.Response:
        is_ready, why = bridge.ready()
        return web.json_response(
            {"ready": is_ready, "reason": why}, status=200 if is_ready else 503
        )

    async def healthz(_request: web.Request) -> web.Response:
        is_alive = bridge.is_alive
        return web.json_response({"alive": is_alive}, status=200 if is_alive else 503)

    async def other(_request: web.Request) -> web.Response:
        return server.error(404, "there are /healthz, /readyz and /metrics")

    hosts = server.allowed_hosts(settings)
    application = web.Application(
        middlewares=[server.probes_first, server.known_host(hosts), server.read_only]
    )
    for path, handler in {"metrics": page, "readyz": readyz, "healthz": healthz}.items():
        application.router.add_get(f"/{path}", handler)
    application.router.add_get("/{other:.*}", other)
    runner = server.Runner(application)
    tls = server_context(settings)
    listener = server.bind(settings.web_bind, settings.web_port)

    async def run() -> None:
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=tls).start()
        await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(run()), name="web", daemon=True).start()
