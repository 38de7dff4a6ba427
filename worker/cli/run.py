"""`run`: the worker itself."""

import click

from worker.cli.logs import set_up_logging
from worker.settings import Settings


@click.command("run", short_help="The worker.")
def command() -> int:
    """The worker, against KAFKA_BOOTSTRAP_SERVERS. Creates the output, dead-letter and changelog topics with the input's
    partition count, never the input topic.

    Runs until SIGTERM or Ctrl-C.
    """
    settings = Settings.from_environment()
    set_up_logging(settings)
    from worker.app import run_worker

    return run_worker(settings)
