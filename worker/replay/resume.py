"""Resumes a replay as a live worker, if it is complete."""

from worker.errors import SetupError
from worker.kafka.agreement import AgreedRecord
from worker.kafka.clients import Clients
from worker.replay.filled_archive import listed
from worker.replay.ledger import Account
from worker.replay.plan import ReplayPlan, decode_plan
from worker.replay.request import plan_topic
from worker.replay.run import accounts
from worker.settings import Settings


def stored_plan(app_id: str, clients: Clients) -> ReplayPlan | None:
    """The plan of the replay with this group, if it is one. Raises SetupError."""
    topic = plan_topic(app_id)
    value = AgreedRecord(clients, clients.admin(), topic).read()
    return None if value is None else decode_plan(value, f"the topic {topic}")


def check_resumable(settings: Settings, clients: Clients) -> None:
    """Raise SetupError if the settings' group is that of a replay that is partial or not over.

    A worker would publish changes of summaries that were never published, or of a part of the
    history.
    """
    plan = stored_plan(settings.app_id, clients)
    if plan is None:
        return
    if plan.holes.missing or (plan.holes.unreadable and not plan.whole):
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of files that lack records "
            f"({listed(plan.holes.missing) or f'unreadable rows: {plan.holes.unreadable:,}'}): "
            "complete the archive and replay it with --restart"
        )
    if not plan.whole:
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of a part of the history, or to no "
            "topic: a worker cannot continue from it"
        )
    open_ones = {
        p: one for p, (_, one) in accounts(clients, settings.app_id, plan).items() if not one.over
    }
    if not open_ones:
        return
    named = ", ".join(map(str, open_ones))
    if any(one != Account() for one in open_ones.values()):
        raise SetupError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay that is not over (partitions "
            f"{named}): let `replay` end first"
        )
    # Only the replay knows whether its records before the log's start come from files: a worker
    # would begin after them.
    raise SetupError(
        f"COVERSUMM_APP_ID={settings.app_id} is a replay, and its group has no account of the "
        f"partitions {named}: the replay has not begun there, or the offsets were reset or have "
        "expired since; give the same `replay` command again, which skips what the state has, then "
        "start the worker"
    )
