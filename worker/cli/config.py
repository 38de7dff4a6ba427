"""`config`: every setting with its value and where that comes from; what the broker has and allows."""

from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.settings import Settings, origins, settings_by_field

if TYPE_CHECKING:
    from worker.operations.access import Check

_VERDICTS = {True: "ok", False: "failed", None: "not checked"}


@click.command("config", short_help="Every setting, its value and origin.")
@click.option(
    "--check", is_flag=True, help="Also ask the broker for what `run` needs: topics and permissions."
)
@output.json_option
def command(check: bool, as_json: bool) -> int:
    """Show every setting with its value and where that comes from: default, environment, a line of --env-file, or found out at
    start. Secrets are shown as ***.

    With --check the broker is asked for what `run` needs: its topics, their partition counts and cleanup policies, and whether
    this client may use them. Nothing is changed. Exit code 1 where a check failed.
    """
    settings = Settings.from_environment()
    _show_settings(settings, as_json)
    if not check:
        return 0
    from worker.operations.access import checks

    found = list(checks(settings))
    _show_checks(found, as_json)
    failed = [one for one in found if one.passed is False]
    for one in failed:
        output.complain(f"{one.of}: {one.what}: {one.found}" + (f"; {one.remedy}" if one.remedy else ""))
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
    from rich.table import Table

    table = Table()
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")  # a name that is cut helps nobody
    table.add_column("origin", overflow="fold")
    for (variable, value, where), described in zip(rows, settings_by_field().values(), strict=True):
        shown = value if value is None or described.secret else described.kind.show(value)
        table.add_row(variable, output.cell(shown), output.cell(where))
    output.console().print(table)


def _show_checks(found: "list[Check]", as_json: bool) -> None:
    if as_json:
        for one in found:
            facts = {"of": one.of, "check": one.what, "status": _VERDICTS[one.passed]}
            output.print_json({**facts, "found": one.found, "remedy": one.remedy or None})
        return
    from rich.table import Table

    table = Table("of", "check", "status", "found")
    for column in table.columns:
        column.overflow = "fold"
    for one in found:
        unasked = one.passed is None and one.remedy
        table.add_row(
            output.cell(one.of),
            one.what,
            _VERDICTS[one.passed],
            output.cell(f"{one.found}; {one.remedy}" if unasked else one.found),
        )
    output.console().print(table)
