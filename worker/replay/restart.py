"""A replay started over: what it has of its own goes. The live worker's is another group's, in other topics and databases."""

from collections.abc import Callable
from contextlib import nullcontext

from worker.kafka.clients import KafkaClients
from worker.kafka.reader import broker_errors
from worker.kafka.recreation import RecreatedTopic
from worker.operations.reset import kept_out, planned
from worker.replay.request import Names

SECONDS = 30.0


def start_over(names: Names, on_wait: Callable[[str], None]) -> None:
    """Throw away state, offsets, what was published, and at last the plan: interrupted before, it is started over again.

    Raises SurroundingsError where one of its processes runs.
    """
    settings = names.settings
    clients = KafkaClients(settings)
    admin = clients.admin()
    steps = planned(settings, local=True, offsets=True, changelog=True, on_wait=on_wait)
    with kept_out(settings.data_dir) if settings.data_dir.exists() else nullcontext():
        for step in steps:
            step.act()
    RecreatedTopic(admin, names.output_topic).recreate()
    RecreatedTopic(admin, settings.dlq_topic).recreate()
    plan = RecreatedTopic(admin, names.plan_topic)
    with broker_errors(f"the topic {names.plan_topic} is not emptied"):
        plan.recreate()
