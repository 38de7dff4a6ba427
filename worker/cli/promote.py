"""`promote`: whether consumers can switch to another build of the summaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from worker.cli.compare import BOUND, Bound, Shown
from worker.cli.group import new_command
from worker.settings import Settings
from worker.view import output
from worker.view.tables import PROSE, Column, show

if TYPE_CHECKING:
    from worker.published.comparison import Comparison

NONE = "none"
COLUMNS = (
    Column("check"),
    Column("holds", lambda row: "yes" if row["ok"] else "NO"),
    Column("found", prose=PROSE),
)


@new_command(
    "promote",
    (
        "coversumm-worker promote coversumm-worker-replay-epoch-2 "
        "marketplace.review-summaries.v1.epoch-2 --max-changed 5%",
        "from the environment's build to a replay's, which a worker keeps current",
    ),
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
    "--facets-topic",
    metavar="TOPIC|none",
    help="The new build's topic of facets, none if it has no facets; by default that of the replay "
    "APP_ID.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the end of a rebalance of the new build, and for it to catch up.",
)
@output.json_option
def command(
    app_id: str,
    output_topic: str,
    bound: Bound | None,
    facets_topic: str | None,
    wait_seconds: float,
    as_json: bool,
) -> int:
    """Check whether consumers can switch from the present build of the summaries, which the
    environment names (COVERSUMM_APP_ID, COVERSUMM_OUTPUT_TOPIC), to the build of the group APP_ID
    in OUTPUT_TOPIC: it is complete, a worker keeps it current, it has caught up, and not too many
    entities differ. If one of them has facets, their topics are checked too; `compare --facets`
    shows how the facets differ.

    Changes nothing. Says how to switch; exit code 1 if a check fails. To go back, run the command
    with the two builds exchanged.
    """
    from worker.kafka.topics import reached
    from worker.published.comparison import compare
    from worker.published.published import published
    from worker.replay.promotion import Promotion
    from worker.replay.run import stored_plan

    present = Settings.from_environment()
    following = replace(present, app_id=app_id, output_topic=output_topic)

    def compared() -> Comparison:
        with (
            published(present.output_topic, present) as before,
            published(following.output_topic, following) as after,
        ):
            return compare(Shown(before), Shown(after))

    def allowed(found: Comparison) -> float | None:
        return None if bound is None else bound.of(found.entities)

    clients = reached(present)
    if facets_topic is None and (plan := stored_plan(app_id, clients)) is not None:
        facets_topic = plan.facets_topic
    shown = present
    if facets_topic == NONE:
        facets_topic, shown = None, replace(present, facets="")
    promotion = Promotion(shown, following, clients, facets_topic)
    passed = True

    def checks() -> Iterator[dict[str, Any]]:
        nonlocal passed
        for check in promotion.checks(wait_seconds, compared, allowed):
            passed = passed and check.passed
            yield {"check": check.what, "ok": check.passed, "found": check.found}

    show(checks(), COLUMNS, as_json)
    switch = _switch(present, following, facets_topic) if passed else {}
    if as_json:
        output.print_json({"ok": passed, **switch})
    else:
        for step, action in switch.items():
            output.say(f"{step.replace('_', ' ')}: {action}")
    return 0 if passed else output.CHECK_FAILED


def _switch(present: Settings, following: Settings, facets_topic: str | None) -> dict[str, str]:
    """The steps of a switch, and of one back."""
    variables = {
        "COVERSUMM_APP_ID": following.app_id,
        "COVERSUMM_OUTPUT_TOPIC": following.output_topic,
    }
    back = ["promote", present.app_id, present.output_topic]
    steps = {"consumers_switch": f"from {present.output_topic} to {following.output_topic}"}
    if facets_topic is not None:
        origin = f"from {present.facets_topic} " if present.facets else ""
        steps["consumers_of_facets_switch"] = f"{origin}to {facets_topic}"
    elif present.facets:
        steps["consumers_of_facets_stop"] = f"reading {present.facets_topic}"
    if present.facets:
        back += ["--facets-topic", present.facets_topic]
    if facets_topic is not None and present.facets:
        variables["COVERSUMM_FACETS_TOPIC"] = facets_topic
    elif facets_topic is not None or present.facets:
        variables["COVERSUMM_FACETS"] = ""  # only one of the two builds has facets
    words = [f"{name}={value}" for name, value in variables.items()]
    return steps | {
        "then_stop": f"the workers of {present.app_id}, as soon as nobody may want to go back",
        "to_go_back": " ".join([*words, output.PROGRAM, *back]),
    }
