"""`status`: the workers of the group."""

from typing import TYPE_CHECKING

import click

from worker.cli import output
from worker.cli.command import Command
from worker.cli.tables import Column, show_table
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.tools.status import GroupStatus

WORKER_COLUMNS = (
    Column("worker"),
    Column("ready"),
    Column("partitions"),
    Column("standbys", drop=2),
    Column("lag", drop=1, right=True),
    Column("version", drop=3),
    Column("address"),
)
PARTITION_COLUMNS = (
    Column("partition", right=True),
    Column("worker"),
    Column("committed", drop=1, right=True),
    Column("end", drop=2, right=True),
    Column("lag", right=True),
)
READY = {True: "yes", False: "no", None: "?"}


@click.command(
    "status",
    cls=Command,
    examples=[
        ("coversumm-worker status", "the group of COVERSUMM_APP_ID"),
        ("coversumm-worker status --json | jq .problems", "only its problems"),
    ],
)
@output.json_option
def command(as_json: bool) -> int:
    """Show the workers of the group: partitions, lag, readiness with the reason, web addresses.

    Members, partitions and offsets come from the broker, readiness from each worker's web address.
    A worker that cannot be reached from this machine is shown with a question mark.

    Exit code 1 if no worker runs, none answers, a partition has no owner, or a worker is not ready.
    """
    settings = Settings.from_environment()
    from dataclasses import asdict

    from worker.tools.status import group_status

    found = group_status(settings)
    if as_json:
        output.print_json(asdict(found))
    else:
        _show(found)
    for problem in found.problems:
        output.complain(problem)
    return output.CHECK_FAILED if found.problems else 0


def _show(found: "GroupStatus") -> None:
    console = output.console()
    lag = sum(one.lag for one in found.partitions)
    about = f"{found.topic}: {len(found.partitions)} partitions, lag {lag:,}"
    console.print(output.printable(f"group {found.group}: {found.state}; {about}"), soft_wrap=True)
    console.print()
    if found.workers:
        rows = [
            (
                one.name,
                READY[one.ready],
                output.ranges(one.partitions),
                output.ranges(one.standbys),
                None if one.lag is None else f"{one.lag:,}",
                one.version,
                one.url,
            )
            for one in found.workers
        ]
        show_table(WORKER_COLUMNS, rows, [None if one.ready else "yellow" for one in found.workers])
        for one in found.workers:
            if not one.ready:
                console.print(output.printable(f"{one.name}: {one.reason}"), soft_wrap=True)
        console.print()
    show_table(
        PARTITION_COLUMNS,
        [
            (one.partition, one.worker, _count(one.committed), _count(one.end), _count(one.lag))
            for one in found.partitions
        ],
        [None if one.worker else "yellow" for one in found.partitions],
    )


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
