"""`bridge`: write a topic of other keys as events keyed by entity."""

import signal
import threading
from pathlib import Path

import click

from worker.cli.command import Command
from worker.cli.logs import set_up_logging
from worker.cli.run import ending_at_sigterm
from worker.errors import SetupError
from worker.settings import Settings


@click.command(
    "bridge",
    cls=Command,
    examples=[
        (
            "coversumm-worker bridge --mapping mapping.toml --from shop.public.reviews",
            "a table captured by Debezium, for a worker on COVERSUMM_INPUT_TOPIC",
        ),
    ],
)
@click.option(
    "--mapping",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The mapping; by default COVERSUMM_MAPPING.",
)
@click.option("--from", "source", required=True, metavar="TOPIC", help="The topic to read.")
def command(file: Path | None, source: str) -> int:
    """Map the records of a topic, and write them to COVERSUMM_INPUT_TOPIC as events keyed by
    entity, exactly once, until SIGTERM or Ctrl-C. Records of one source partition stay in order.

    It keeps no state. Any number of processes share the source's partitions; each needs its own
    COVERSUMM_INSTANCE_ID. What does not fit the mapping becomes a dead letter in TOPIC.dlq, which
    is created. The worker behind it reads the contract's events: unset COVERSUMM_MAPPING there.

    Exit codes and probes are those of `run`.
    """
    settings = Settings.from_environment(mapping=None if file is None else str(file))
    if settings.mapping is None:
        raise SetupError("--mapping FILE is missing, and COVERSUMM_MAPPING is not set")
    set_up_logging(settings)
    from worker.kafka.clients import WORKER_LOG, KafkaClients
    from worker.metrics import Metrics
    from worker.tools.bridge import Bridge
    from worker.tools.bridge_setup import bridge_settings, serve

    own = bridge_settings(settings, source, settings.mapping)
    metrics = Metrics("bridge")
    stopping = threading.Event()
    with ending_at_sigterm():
        bridge = Bridge(own, KafkaClients(own, WORKER_LOG), metrics)
        server = serve(own, bridge, metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        try:
            bridge.run(stopping.is_set)
        finally:
            server.shutdown()
    return 0
