"""`config`: the settings and their origins; `--check`: whether a broker suits `run`."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from worker.cli.group import new_command
from worker.settings import COMPUTED, HIDDEN, Settings, origins, settings_by_field
from worker.view import output
from worker.view.tables import PROSE, Column, show

if TYPE_CHECKING:
    from worker.operations.broker_checks import ConfigCheck


@new_command(
    "config",
    ("--env-file prod.env config", "the settings of a worker with this file"),
    ("config --check", "with checks of the broker"),
)
@click.option(
    "--check",
    is_flag=True,
    help="Also check the broker for `run`: topics, permissions, a state with these settings.",
)
@output.json_option
def command(check: bool, as_json: bool) -> int:
    """Show every setting with its value and origin: default, computed (from this machine or other
    settings), environment, or a line of --env-file. Secrets are shown as ***.

    With --check, also check the broker for `run`: the topics, their partition counts, cleanup
    policies, largest messages and the changelog's delete.retention.ms, the permissions of this
    client, and whether the group's state was built with these settings. Also say how far back the
    input reaches, of which replays need all.
    Changes nothing. Exit code 1 if a check fails.
    """
    settings = Settings.from_environment()
    _show_settings(settings, as_json, only_set=check)
    if not check:
        if not as_json:
            _show_form(settings.native)
        return 0
    from worker.operations.broker_checks import checks
    from worker.processing.native import check_native

    check_native(settings.native)

    found = list(checks(settings))
    if as_json:
        show(found, (), as_json)
    else:
        _show_checks(found)
    failed = [check for check in found if check.status == "failed"]
    code = output.exit_code(f"{check.of}: {check.check}: {check.advice}" for check in failed)
    if not as_json:
        output.say(_verdict(found), style="bold")
    return code


def _show_settings(settings: Settings, as_json: bool, *, only_set: bool) -> None:
    """`only_set`: on a terminal leave out defaults and computed values."""
    origin, described = origins(), settings_by_field()
    text = {setting.variable: setting.kind.show for setting in described.values()}

    def value(row: dict[str, Any]) -> object:
        shown = row["value"]
        return shown if shown in (None, HIDDEN) else text[row["setting"]](shown)

    rows = [
        {"setting": setting.variable, "value": settings.shown(name), "origin": origin[name]}
        for name, setting in described.items()
        if as_json or not only_set or origin[name] not in ("default", COMPUTED)
    ]
    columns = (
        Column("setting"),
        Column("value", value, prose=PROSE),
        Column("origin", lambda row: Path(row["origin"]).name),
    )
    show(rows, columns, as_json)
    if only_set and not as_json:
        output.say("All other settings have their defaults; `coversumm-worker config` shows them.")
        output.say("")


def _show_form(choice: str) -> None:
    """Say whether there is native code; some settings leave all events to Python."""
    from worker.coversumm.native import native_module

    if choice == "off":
        output.say("Python takes all events, as COVERSUMM_NATIVE=off.")
    elif native_module() is None:
        output.say("Python takes all events, as native code is not installed here.")
    else:
        output.say("Native code is installed; /status says whether these settings use it.")


def _show_checks(found: list[ConfigCheck]) -> None:
    from rich.text import Text

    from worker.view.texts import hanging

    console = output.console()
    width = max(len(check.check) for check in found)
    for of, group in groupby(found, key=lambda check: check.of):
        output.say(of, style="bold")
        for check in group:
            # the remedies of failed checks are written below
            text = check.advice if check.status == "not checked" else check.found
            first = Text(f"  {check.check:<{width}}  {check.status:<11}  ")
            rest = Text(output.printable(text))
            console.print(*hanging(console, first, rest, console.width), sep="\n")


def _verdict(found: list[ConfigCheck]) -> str:
    """The last line for people."""
    counts = Counter(check.status for check in found)
    others = [
        f"{counts[outcome]} {outcome}" for outcome in ("failed", "not checked") if counts[outcome]
    ]
    passed = ", ".join([f"{output.many(counts['ok'], 'checks')} passed", *others])
    return (
        f"{passed}: `run` {'cannot start' if counts['failed'] else 'can start'} with these settings"
    )
