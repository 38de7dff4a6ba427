"""`config`: the settings with their origins, and checks of the broker."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.settings import HIDDEN, Settings, origins, settings_by_field

if TYPE_CHECKING:
    from worker.tools.config import ConfigCheck

SETTINGS = (Column("setting"), Column("value", prose=True), Column("origin"))
CHECKS = (Column("of"), Column("check"), Column("status"), Column("found", prose=True))
_STATUS = {True: "ok", False: "failed", None: "not checked"}


@click.command(
    "config",
    cls=Command,
    short_help="Show every setting, its value and origin.",
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
    _show_settings(settings, as_json)
    if not check:
        return 0
    from worker.tools.config import checks

    found = list(checks(settings))
    _show_checks(found, as_json)
    failed = [one for one in found if one.passed is False]
    for one in failed:
        output.complain(f"{one.of}: {one.what}: {_with_remedy(one)}")
    return output.CHECK_FAILED if failed else 0


def _show_settings(settings: Settings, as_json: bool) -> None:
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
    show_table(SETTINGS, cells)


def _show_checks(found: "list[ConfigCheck]", as_json: bool) -> None:
    if as_json:
        for one in found:
            facts = {"of": one.of, "check": one.what, "status": _STATUS[one.passed]}
            output.print_json({**facts, "found": one.found, "remedy": one.remedy or None})
        return
    show_table(
        CHECKS,
        [
            # the remedies of failed checks are written below the table
            (
                one.of,
                one.what,
                _STATUS[one.passed],
                _with_remedy(one) if one.passed is None else one.found,
            )
            for one in found
        ],
    )


def _with_remedy(one: "ConfigCheck") -> str:
    return f"{one.found}; {one.remedy}" if one.remedy else one.found
