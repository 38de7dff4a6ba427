"""The worker's topics before it joins its group: missing ones are created, wrong and lost ones
refused.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException

from worker.errors import SetupError
from worker.kafka.clients import Clients
from worker.kafka.errors import patiently
from worker.kafka.offsets import committed_offsets
from worker.kafka.topics import METADATA_TIMEOUT_SECONDS, Topics, TopicSpec
from worker.settings import Settings
from worker.state.errors import NEW_EPOCH, PartitionsChanged

log = logging.getLogger(__name__)


def prepare_topics(
    settings: Settings,
    clients: Clients,
    die: Callable[[BaseException], Any],
    specs: Mapping[str, TopicSpec] | None = None,
) -> int:
    """Check the worker's topics and create the missing ones but the input; return the partition
    count.

    Topics are created only for a group that has not begun: one that has had them all, so a missing
    one was removed. `specs` are the topics by role, by default those of any worker. `die` is
    called, from a thread of its own, where it turns out later that the state cannot be restored
    from its changelog.

    Raises SetupError where a topic is not as it must be, or the broker cannot be asked.
    """
    topics = Topics(settings, clients, specs=specs, patient=True)
    partitions = topics.input_partitions
    missing = topics.missing()

    def has_begun() -> bool:
        return patiently(lambda: has_progress(clients, settings, partitions))

    if missing and has_begun():
        topics.refresh()  # the group's first worker may have been about to create them
        _refuse_lost(topics, settings.app_id)
    patiently(lambda: topics.create(missing, partitions))
    for refusal in refused_counts(topics, topics.input_partitions, has_begun):
        raise refusal
    threading.Thread(
        target=_watch_policies, args=[topics, die], name="policies", daemon=True
    ).start()
    return partitions


def has_progress(clients: Clients, settings: Settings, partitions: int) -> bool:
    """Whether the worker group has committed any offset of the input. Raises SetupError
    where the broker does not tell.
    """
    group = settings.app_id
    consumer = clients.standalone_consumer(group, "read_committed")
    try:
        committed = committed_offsets(
            consumer, settings.input_topic, range(partitions), METADATA_TIMEOUT_SECONDS
        )
        return any(found.offset >= 0 for found in committed)
    except KafkaException as cause:
        raise SetupError(
            f"the broker does not tell the offsets of the group {group} ({cause.args[0].str()})"
        ) from cause
    finally:
        consumer.close()


def _refuse_lost(topics: Topics, group: str) -> None:
    """Refuse a missing changelog or output; a missing dead letter topic is created: nothing builds
    on what was in it.
    """
    missing = {spec.role: spec.name for spec in topics.missing()}
    if "changelog" in missing:
        raise SetupError(
            f"the changelog topic {missing['changelog']} is gone, and with it the state of everything that is committed; "
            f"start over with `coversumm-worker reset`, or {NEW_EPOCH}"
        )
    if "output" in missing:
        raise SetupError(
            f"the output topic {missing['output']} does not exist, though the group {group} has read part of its "
            "input: what was published there is gone. Publish all of it again with `coversumm-worker reset`, or name another "
            "COVERSUMM_OUTPUT_TOPIC, made with `coversumm-worker topics`, to publish only what changes from here on"
        )


def refused_counts(topics: Topics, wanted: int, has_begun: Callable[[], bool]) -> list[SetupError]:
    """What is to be said of topics that do not have the `wanted` partition count, the input's;
    empty where all have.

    Where the group has begun, and its changelog is among them, it was the input that changed: then
    only that is said.
    """
    others = {
        spec.role: (spec.name, topics.partitions[spec.name])
        for spec in topics.specs.values()
        if topics.partitions.get(spec.name, wanted) != wanted
    }
    input_topic = topics.specs["input"].name
    if "changelog" in others and has_begun():
        return [PartitionsChanged(input_topic, others["changelog"][1], wanted)]
    return [
        SetupError(
            f"the {role} topic {name} has {found} partitions, the input topic {input_topic} has {wanted}: they must be equal; "
            "name another one, or delete it if nobody needs it, and `coversumm-worker topics` creates it with as many"
        )
        for role, (name, found) in others.items()
    ]


def _watch_policies(topics: Topics, die: Callable[[BaseException], Any]) -> None:
    """Runs beside the start, which need not wait for it: an answer may take its time, or never
    come.
    """
    try:
        complaints = topics.check_policies()
    except (KafkaException, TimeoutError) as cause:
        log.info("the broker does not tell the topics' cleanup policies: %r", cause)
        return
    for role, complaint in complaints.items():
        if role == "changelog":
            die(SetupError(f"{complaint}: the state cannot be restored from a log that forgets"))
        log.warning("%s", complaint)
