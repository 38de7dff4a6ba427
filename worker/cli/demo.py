"""`demo`: everything at once, on this machine alone."""

import click
from click.core import ParameterSource

from worker.cli import output
from worker.cli.command import Command

DEFAULT_REVIEWS = 1000
DEFAULT_K = 5


class ReviewCount(click.ParamType):
    """A number of reviews, or `all`: None."""

    name = "N|all"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """See `click.ParamType`."""
        if value == "all":
            return None
        count: int = click.IntRange(min=1).convert(value, param, ctx)
        return count


@click.command(
    "demo",
    cls=Command,
    short_help="Real reviews through the real worker, in a minute; needs nothing.",
    examples=[
        ("coversumm-worker demo", "a thousand reviews"),
        ("coversumm-worker demo --serve", "and look at it in a browser, until Ctrl-C"),
        ("coversumm-worker demo --reviews all --k 10", "all of them, ten sentences in a summary"),
    ],
)
@click.option(
    "--reviews",
    type=ReviewCount(),
    default=DEFAULT_REVIEWS,
    show_default=True,
    help="How many of the 4,771 reviews; by default fewer where the machine is slow.",
)
@click.option(
    "--k",
    type=click.IntRange(1, 1000),
    default=DEFAULT_K,
    show_default=True,
    help="Sentences in a summary.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The summary changes and the closing figures as JSON lines.",
)
@click.option(
    "--serve",
    "is_served",
    is_flag=True,
    help="Keep the worker's live page up until Ctrl-C; its address is told first.",
)
@click.pass_context
def command(
    context: click.Context, reviews: int | None, k: int, as_json: bool, is_served: bool
) -> int:
    """No broker, no Java, no Docker: the bundled real reviews through the real worker on an
    embedded broker, and the summaries as they change, with the reasons; some reviews are taken down
    again.

    In a pipe, plain lines; with --json, the bodies as they were published and the closing figures.
    """
    from worker.demo import run_demo

    output.require()
    is_asked_for = context.get_parameter_source("reviews") is not ParameterSource.DEFAULT
    return run_demo(reviews, k, as_json, not is_asked_for and not as_json, is_served)
