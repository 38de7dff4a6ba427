"""`promote`: whether consumers can switch to another build of the summaries."""

from dataclasses import replace

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.compare import BOUND, Bound, Shown
from worker.cli.tables import PROSE, Column, show_table
from worker.settings import Settings


@click.command(
    "promote",
    cls=Command,
    short_help="Check whether consumers can switch to a new build.",
    examples=[
        (
            "coversumm-worker promote coversumm-worker-replay-epoch-2 "
            "marketplace.review-summaries.v1.epoch-2 --max-changed 5%",
            "from the environment's build to a replay's, which a worker keeps current",
        ),
    ],
)
@click.argument("app_id")
@click.argument("output_topic")
@click.option(
    "--max-changed",
    "bound",
    type=BOUND,
    help="Maximum number or share of entities that differ; by default no limit.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the new build to catch up.",
)
@output.json_option
def command(
    app_id: str, output_topic: str, bound: Bound | None, wait_seconds: float, as_json: bool
) -> int:
    """Check whether consumers can switch from the present build of the summaries, which the
    environment names (COVERSUMM_APP_ID, COVERSUMM_OUTPUT_TOPIC), to the build of the group APP_ID
    in OUTPUT_TOPIC: it is complete, a worker keeps it current, it has caught up, and not too many
    entities differ.

    Changes nothing. Says how to switch; exit code 1 if a check fails. To go back, run the command
    with the two builds exchanged.
    """
    present = Settings.from_environment()
    following = replace(present, app_id=app_id, output_topic=output_topic)
    from worker.kafka.clients import KafkaClients
    from worker.kafka.topics import reached
    from worker.published.comparison import Comparison, compare
    from worker.published.published import published
    from worker.replay.promotion import Promotion

    def compared() -> Comparison:
        with (
            published(present.output_topic, present) as before,
            published(following.output_topic, following) as after,
        ):
            return compare(Shown(before), Shown(after))

    def allowed(found: Comparison) -> float | None:
        return None if bound is None else bound.of(found.entities)

    promotion = Promotion(present, following, reached(present, KafkaClients(present)))
    rows, passed = [], True
    for check in promotion.checks(wait_seconds, compared, allowed):
        passed = passed and check.passed
        rows.append((check.what, "yes" if check.passed else "NO", check.found))
        if as_json:
            output.print_json({"check": check.what, "ok": check.passed, "found": check.found})
    variables = f"COVERSUMM_APP_ID={app_id} COVERSUMM_OUTPUT_TOPIC={output_topic}"
    promote = f"{variables} {output.PROGRAM} promote"
    switch = {
        "consumers_switch": f"from {present.output_topic} to {output_topic}",
        "then_stop": f"the workers of {present.app_id}, as soon as nobody may want to go back",
        "to_go_back": f"{promote} {present.app_id} {present.output_topic}",
    }
    if as_json:
        output.print_json({"ok": passed, **(switch if passed else {})})
    else:
        show_table((Column("check"), Column("holds"), Column("found", prose=PROSE)), rows)
        if passed:
            for step, action in switch.items():
                output.console().print(f"{step.replace('_', ' ')}: {action}", soft_wrap=True)
    return 0 if passed else output.CHECK_FAILED
