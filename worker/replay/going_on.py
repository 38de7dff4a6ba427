"""A worker that goes on from a replay: only from one that is whole and over."""

from worker.errors import SurroundingsError
from worker.kafka.agreement import AgreedRecord
from worker.kafka.clients import Clients
from worker.replay.filled import listed
from worker.replay.plan import decode_plan
from worker.replay.request import plan_topic
from worker.replay.run import accounts
from worker.settings import Settings


def check_going_on(settings: Settings, clients: Clients) -> None:
    """Raise SurroundingsError where the settings' group is a replay's that has left something out, or is not over.

    A worker would publish changes of summaries that were never published, or of a part of the history.
    """
    topic = plan_topic(settings.app_id)
    value = AgreedRecord(clients, clients.admin(), topic).read()
    if value is None:
        return
    plan = decode_plan(value, f"the topic {topic}")
    if plan.holes.missing or (plan.holes.unreadable and not plan.whole):
        raise SurroundingsError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of files that lack records "
            f"({listed(plan.holes.missing) or f'unreadable rows: {plan.holes.unreadable:,}'}): complete the archive and "
            "replay it with --restart"
        )
    if not plan.whole:
        raise SurroundingsError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay of a part of the history, or to no topic: "
            "a worker cannot go on from it"
        )
    open_ones = [
        partition for partition, (_, one) in accounts(clients, settings.app_id, plan).items() if not one.over
    ]
    if open_ones:
        raise SurroundingsError(
            f"COVERSUMM_APP_ID={settings.app_id} is a replay that is not over (partitions {', '.join(map(str, open_ones))}): let "
            "`replay` end first"
        )
