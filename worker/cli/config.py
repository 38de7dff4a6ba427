"""`config`: every setting with its value and where that comes from; what the broker has
and allows.
"""

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
_VERDICTS = {True: "ok", False: "failed", None: "not checked"}


@click.command(
    "config",
    cls=Command,
    short_help="Every setting, its value and origin.",
    examples=[
        (
            "coversumm-worker --env-file prod.env config",
            "what a worker with this file would run with",
        ),
        ("coversumm-worker config --check", "and whether the broker has and allows what it needs"),
    ],
)
@click.option(
    "--check",
    is_flag=True,
    help="Also ask the broker for what `run` needs: topics, permissions, a state of these settings.",
)
@output.json_option
def command(check: bool, as_json: bool) -> int:
    """Show every setting with its value and where that comes from: default, computed (from this
    machine or other settings), environment, or a line of --env-file. Secrets are shown as ***.

    With --check the broker is asked for what `run` needs: its topics, their partition counts and
    cleanup policies, whether this client may use them, and whether the state of the group was built
    with these settings. Nothing is changed. Exit code 1 where a check failed.
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
        output.complain(
            f"{one.of}: {one.what}: {one.found}" + (f"; {one.remedy}" if one.remedy else "")
        )
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
    show = {described.variable: described.kind.show for described in settings_by_field().values()}
    plain = (None, HIDDEN)
    show_table(
        SETTINGS,
        [
            (variable, value if value in plain else show[variable](value), Path(where).name)
            for variable, value, where in rows
        ],
    )


def _show_checks(found: "list[ConfigCheck]", as_json: bool) -> None:
    if as_json:
        for one in found:
            facts = {"of": one.of, "check": one.what, "status": _VERDICTS[one.passed]}
            output.print_json({**facts, "found": one.found, "remedy": one.remedy or None})
        return
    show_table(CHECKS, [(one.of, one.what, _VERDICTS[one.passed], _found(one)) for one in found])


def _found(one: "ConfigCheck") -> str:
    """What was found; where there was no answer, with what would help: failed ones say so below the
    table.
    """
    return f"{one.found}; {one.remedy}" if one.passed is None and one.remedy else one.found
