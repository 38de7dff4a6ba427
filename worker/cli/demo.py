"""`demo`: the worker on this machine, without Kafka."""

import click
from click.core import ParameterSource

from worker.cli.group import new_command
from worker.view import output

DEFAULT_REVIEWS = 1000
DEFAULT_K = 5


class ReviewCount(click.ParamType):
    """A number of reviews, or `all`: None."""

    name = "N|all"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        if value == "all":
            return None
        count: int = click.IntRange(min=1).convert(value, param, ctx)
        return count


@new_command(
    "demo",
    ("demo", "a thousand reviews"),
    ("demo --serve", "with the live page, until Ctrl-C"),
    ("demo --reviews all --k 10", "all of them, ten sentences in a summary"),
)
@click.option(
    "--reviews",
    type=ReviewCount(),
    default=DEFAULT_REVIEWS,
    show_default=True,
    help="Number of the 4,771 reviews; by default fewer on a slow machine.",
)
@click.option(
    "--k",
    type=click.IntRange(1, 1000),
    default=DEFAULT_K,
    show_default=True,
    help="Sentences in a summary.",
)
@click.option("--json", "as_json", is_flag=True, help="Summary changes and figures as JSON lines.")
@click.option(
    "--serve",
    "is_served",
    is_flag=True,
    help="Print the live page's URL and keep it until Ctrl-C. COVERSUMM_WEB_PORT, "
    "COVERSUMM_REVIEW_URL and COVERSUMM_WEB_ORIGINS count here too.",
)
@click.pass_context
def command(
    context: click.Context, reviews: int | None, k: int, as_json: bool, is_served: bool
) -> None:
    """Send the bundled real reviews through the real worker on an embedded broker, and show the
    summaries as they change, with the reasons. Some reviews are taken down again. Needs no Kafka,
    Java or Docker.

    In a pipe it prints plain lines; with --json the published bodies and the figures.
    """
    from worker.demo.play import run_demo

    output.require()
    is_default = context.get_parameter_source("reviews") is ParameterSource.DEFAULT
    run_demo(reviews, k, as_json, is_default and not as_json, is_served)
