"""Resumes a replay as a live worker, if it is complete, or starts it over."""

from collections.abc import Callable
from contextlib import nullcontext

from worker.errors import SetupError
from worker.kafka.agreement import AgreedRecord
from worker.kafka.clients import Clients, KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.topic_ids import RecreatedTopic
from worker.replay.filled_archive import listed
from worker.replay.ledger import Account
from worker.replay.plan import ReplayPlan, decode_plan
from worker.replay.request import ReplayIdentity, plan_topic
from worker.replay.run import accounts
from worker.settings import Settings
from worker.tools.reset import lock_data_dir, planned


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


def start_over(names: ReplayIdentity, on_wait: Callable[[str], None]) -> None:
    """Delete state, offsets, output, dead letters, and the plan last: then it can be repeated.

    Raises SetupError if one of the replay's processes runs.
    """
    settings = names.settings
    clients = KafkaClients(settings)
    admin = clients.admin()
    steps = planned(settings, local=True, offsets=True, changelog=True, on_wait=on_wait)
    with lock_data_dir(settings.data_dir) if settings.data_dir.exists() else nullcontext():
        for step in steps:
            step.act()
    for topic in (*names.published_topics, settings.dlq_topic):
        RecreatedTopic(admin, topic).recreate()
    plan = RecreatedTopic(admin, names.plan_topic)
    with broker_errors(f"could not empty the topic {names.plan_topic}"):
        plan.recreate()
