"""`demo`: the worker on this machine, without Kafka."""

import click

from worker.cli.group import new_command
from worker.view import output


@new_command(
    "demo",
    ("demo", "a thousand reviews"),
    ("demo --serve", "with the live page, until Ctrl-C"),
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
@click.option(
    "--serve",
    "is_served",
    is_flag=True,
    help="Print the live page's URL and keep it until Ctrl-C. COVERSUMM_WEB_PORT, "
    "COVERSUMM_REVIEW_URL and COVERSUMM_WEB_ORIGINS count here too.",
)
def command(reviews: int, k: int, is_served: bool) -> None:
    """Send the bundled real reviews through the real worker on an embedded broker, and show the
    summaries as they change, with the reasons. Some reviews are taken down again. Needs no Kafka,
    Java or Docker.

    In a pipe it prints plain lines.
    """
    from worker.demo.play import run_demo

    output.require()
    run_demo(reviews, k, is_served)
