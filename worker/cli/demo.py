"""`demo`: the worker on this machine, without Kafka."""

import click

from worker.cli.group import new_command
from worker.view import output


@new_command(
    "demo",
    ("demo", "a thousand reviews"),
    ("demo --reviews 4771 --k 10", "all of them, ten sentences in a summary"),
)
@click.option(
    "--reviews",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Number of the 4,771 reviews.",
)
@click.option(
    "--k",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Sentences in a summary.",
)
def command(reviews: int, k: int) -> None:
    """Send the bundled real reviews through the real worker on an embedded broker, and show the
    summaries as they change, with the reasons. Some reviews are taken down again. Needs no Kafka,
    Java or Docker.

    In a pipe it prints plain lines.
    """
    from worker.demo.play import run_demo

    output.require()
    run_demo(reviews, k)
