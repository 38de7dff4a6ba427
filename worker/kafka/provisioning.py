"""The worker's topics before it joins its group: missing ones are created, wrong and lost ones refused."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException

from worker.errors import SurroundingsError
from worker.kafka.clients import Clients
from worker.kafka.offsets import committed_offsets
from worker.kafka.topics import METADATA_TIMEOUT_SECONDS, Topics
from worker.settings import Settings
from worker.state.errors import NEW_EPOCH

log = logging.getLogger(__name__)


def prepare_topics(settings: Settings, clients: Clients, die: Callable[[BaseException], Any]) -> int:
    """Check the worker's topics and create the missing ones but the input; return the partition count.

    Topics are created only for a group that has not begun: one that has had them all, so a missing one was removed.
    `die` is called, from a thread of its own, where it turns out later that the state cannot be restored from its changelog.

    Raises SurroundingsError where a topic is not as it must be, or the broker cannot be asked.
    """
    topics = Topics(settings, clients)
    partitions = topics.input_partitions
    missing = topics.missing()
    if missing and _has_progress(clients, settings.app_id, settings.input_topic, partitions):
        topics.refresh()  # the group's first worker may have been about to create them
        _refuse_lost(topics, settings.app_id)
    topics.create(missing, partitions)
    _refuse_other_counts(topics)
    threading.Thread(target=_watch_policies, args=[topics, die], name="policies", daemon=True).start()
    return partitions


def _has_progress(clients: Clients, group: str, input_topic: str, partitions: int) -> bool:
    """Whether the worker group has committed any offset of the input."""
    consumer = clients.standalone_consumer(group, "read_committed")
    try:
        committed = committed_offsets(consumer, input_topic, range(partitions), METADATA_TIMEOUT_SECONDS)
        return any(found.offset >= 0 for found in committed)
    except KafkaException as cause:
        raise SurroundingsError(
            f"the broker does not tell the offsets of the group {group} ({cause.args[0].str()})"
        ) from cause
    finally:
        consumer.close()


def _refuse_lost(topics: Topics, group: str) -> None:
    """Refuse a missing changelog or output; a missing dead letter topic is created: nothing builds on what was in it."""
    missing = {spec.role: spec.name for spec in topics.missing()}
    if "changelog" in missing:
        raise SurroundingsError(
            f"the changelog topic {missing['changelog']} is gone, and with it the state of everything that is committed; "
            f"start over with `coversumm-worker reset`, or {NEW_EPOCH}"
        )
    if "output" in missing:
        raise SurroundingsError(
            f"the output topic {missing['output']} does not exist, though the group {group} has read part of its "
            "input: what was published there is gone. Make it with `coversumm-worker topics` to publish only what is new "
            "from here on, or publish all of it again: `coversumm-worker reset`"
        )


def _refuse_other_counts(topics: Topics) -> None:
    """Refuse topics that do not have the input's partition count."""
    wanted = topics.input_partitions
    for spec in topics.specs.values():
        found = topics.partitions.get(spec.name, wanted)
        if found != wanted:
            raise SurroundingsError(
                f"the {spec.role} topic {spec.name} has {found} partitions, the input topic "
                f"{topics.specs['input'].name} has {wanted}: they must be equal; give the {spec.role} topic the same count, "
                "or name another one"
            )


def _watch_policies(topics: Topics, die: Callable[[BaseException], Any]) -> None:
    """Runs beside the start, which need not wait for it: an answer may take its time, or never come."""
    try:
        complaints = topics.check_policies()
    except (KafkaException, TimeoutError) as cause:
        log.info("the broker does not tell the topics' cleanup policies: %r", cause)
        return
    for role, complaint in complaints.items():
        if role == "changelog":
            die(SurroundingsError(f"{complaint}: the state cannot be restored from a log that forgets"))
        log.warning("%s", complaint)
