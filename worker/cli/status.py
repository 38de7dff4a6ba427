"""`status`: the workers of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.cli.group import new_command
from worker.settings import Settings
from worker.view import output
from worker.view.tables import Column, show

if TYPE_CHECKING:
    from worker.operations.group_status import GroupStatus

READY = {True: "yes", False: "no", None: "?"}
WORKER_COLUMNS = (
    Column("worker", "name"),
    Column("ready", lambda row: READY[row.ready]),
    Column("partitions", lambda row: output.ranges(row.partitions)),
    Column("standbys", lambda row: output.ranges(row.standbys), drop=2),
    Column("lag", drop=1, count=True),
    Column("version", drop=3),
    Column("address", "url"),
)
PARTITION_COLUMNS = (
    Column("partition", right=True),
    Column("worker"),
    Column("committed", drop=1, count=True),
    Column("end", drop=2, count=True),
    Column("lag", count=True),
)


@new_command(
    "status",
    ("status", "the group of COVERSUMM_APP_ID"),
    ("status --json | jq .problems", "only its problems"),
)
@output.json_option
def command(as_json: bool) -> int:
    """Show the workers of the group: partitions, lag, readiness with the reason, web addresses.

    Members, partitions and offsets come from the broker, readiness from each worker's web address.
    A worker that cannot be reached from this machine is shown with a question mark.

    Exit code 1 if no worker runs, none answers, a partition has no owner, or a worker is not ready.
    """
    from worker.operations.group_status import group_status

    found = group_status(Settings.from_environment())
    if as_json:
        output.print_json(found)
    else:
        _show(found)
    return output.exit_code(found.problems)


def _show(found: GroupStatus) -> None:
    lag = sum(partition.lag for partition in found.partitions)
    about = f"{found.topic}: {output.many(len(found.partitions), 'partitions')}, lag {lag:,}"
    output.say(f"group {found.group}: {found.state}; {about}")
    output.say("")
    show(found.workers, WORKER_COLUMNS, False, lambda row: None if row.ready else "yellow")
    for worker in found.workers:
        if not worker.ready:
            output.say(f"{worker.name}: {worker.reason}")
    if found.workers:
        output.say("")
    show(found.partitions, PARTITION_COLUMNS, False, lambda row: None if row.worker else "yellow")
