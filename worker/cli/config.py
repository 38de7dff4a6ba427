"""`config`: the settings with their origins, and checks of the broker."""

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import PROSE, Column, show_table
from worker.settings import COMPUTED, HIDDEN, Settings, origins, settings_by_field

if TYPE_CHECKING:
    from worker.tools.config import ConfigCheck

SETTINGS = (Column("setting"), Column("value", prose=PROSE), Column("origin"))
_STATUS = {True: "ok", False: "failed", None: "not checked"}


@click.command(
    "config",
    cls=Command,
    examples=[
        ("coversumm-worker --env-file prod.env config", "the settings of a worker with this file"),
        ("coversumm-worker config --check", "with checks of the broker"),
    ],
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

    With --check, also check the broker for `run`: the topics, their partition counts and cleanup
    policies, the permissions of this client, and whether the group's state was built with these
    settings. Changes nothing. Exit code 1 if a check fails.
    """
    settings = Settings.from_environment()
    _show_settings(settings, as_json, only_set=check)
    if not check:
        return 0
    from worker.tools.config import checks

    found = list(checks(settings))
    _show_checks(found, as_json)
    failed = [one for one in found if one.passed is False]
    for one in failed:
        output.complain(f"{one.of}: {one.what}: {_with_remedy(one)}")
    if not as_json:
        output.console().print(_verdict(found), style="bold")
    return output.CHECK_FAILED if failed else 0


def _show_settings(settings: Settings, as_json: bool, *, only_set: bool) -> None:
    """`only_set`: on a terminal leave out defaults and computed values."""
    origin = origins()
    rows = [
        (described.variable, settings.shown(name), origin[name])
        for name, described in settings_by_field().items()
    ]
    if as_json:
        for variable, value, where in rows:
            output.print_json({"setting": variable, "value": value, "origin": where})
        return
    show = {one.variable: one.kind.show for one in settings_by_field().values()}
    cells = (
        (variable, value if value in (None, HIDDEN) else show[variable](value), Path(where).name)
        for variable, value, where in rows
    )
    shown = [row for row in cells if not only_set or row[2] not in ("default", COMPUTED)]
    if shown:
        show_table(SETTINGS, shown)
    if only_set:
        line = "All other settings have their defaults; `coversumm-worker config` shows them."
        output.console().print(f"{line}\n")


def _show_checks(found: "list[ConfigCheck]", as_json: bool) -> None:
    if as_json:
        for one in found:
            facts = {"of": one.of, "check": one.what, "status": _STATUS[one.passed]}
            output.print_json({**facts, "found": one.found, "remedy": one.remedy or None})
        return
    from rich.text import Text

    from worker.view.texts import hanging

    console = output.console()
    width = max(len(one.what) for one in found)
    for of, group in groupby(found, key=lambda one: one.of):
        console.print(output.printable(of), style="bold", soft_wrap=True)
        for one in group:
            # the remedies of failed checks are written below
            text = _with_remedy(one) if one.passed is None else one.found
            first = Text(f"  {one.what:<{width}}  {_STATUS[one.passed]:<11}  ")
            console.print(
                *hanging(console, first, Text(output.printable(text)), console.width), sep="\n"
            )


def _verdict(found: "list[ConfigCheck]") -> str:
    """The last line for people."""
    counts = Counter(one.passed for one in found)
    others = [f"{counts[one]} {_STATUS[one]}" for one in (False, None) if counts[one]]
    passed = ", ".join([f"{output.many(counts[True], 'checks')} passed", *others])
    return f"{passed}: `run` {'cannot start' if counts[False] else 'can start'} with these settings"


def _with_remedy(one: "ConfigCheck") -> str:
    return f"{one.found}; {one.remedy}" if one.remedy else one.found
