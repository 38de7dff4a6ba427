"""Checks at a takeover that restored state fits the input and the output of now.

Offsets of one topic mean nothing in another topic of the same name, so topics are compared by their
ids. A worker that would continue on another topic, or with records missing, stops instead.
"""

import logging
from collections.abc import Iterable

from worker.errors import SetupError
from worker.kafka.offsets import Start
from worker.processing.processor import Processor
from worker.state.errors import NEW_EPOCH

log = logging.getLogger(__name__)

RESET = "start over with `coversumm-worker reset`"
RECREATED = "it was deleted and created again, and its records would pass for applied ones"


def check_input(
    processor: Processor, topic: str, topic_id: str, partition: int, start: Start, changelog: str
) -> None:
    """Raise SetupError unless the partition's state is of this topic and reaches `start`.

    `start` may lie below the applied offset (rewound: those records are ignored), never beyond:
    rows or records would be missing.
    """
    stored = processor.topic_id(partition)
    if stored and topic_id and stored != topic_id:
        raise SetupError(
            f"the state of {topic}-{partition} was made from the topic with the id {stored}, which "
            f"now has the id {topic_id}: {RECREATED}; {RESET}"
        )
    applied = processor.check_partition(partition)
    if applied is None and not start.committed:
        return
    if applied is None or applied < start.offset:
        raise SetupError(
            f"{topic}-{partition} would be read from offset {start.offset}, but the state ends at "
            f"{applied or 0}: records or rows of the changelog {changelog} are gone, or offsets were "
            f"moved forward; put the offsets back, or {RESET}"
        )
    # The topic's end was read before the restore. State of the same topic beyond that end was made
    # by another worker that took over while this one was paused: this assignment is past, and the
    # broker refuses its commits.
    if applied > start.end and not (topic_id and processor.topic_id(partition) == topic_id):
        raise SetupError(
            f"the state of {topic}-{partition} ends at offset {applied}, the topic at {start.end}: "
            f"{RECREATED}; {RESET}"
        )


def check_output(
    processor: Processor, topic: str, topic_id: str, partitions: Iterable[int]
) -> None:
    """Raise SetupError if the output topic was created again; warn if it has another name.

    A new topic lacks the summaries that do not change again. Another name is the operator's
    decision.
    """
    former: set[str] = set()
    for partition in partitions:
        stored = processor.output(partition)
        if stored is not None and stored.topic != topic:
            former.add(stored.topic)
        elif stored is not None and stored.topic_id and topic_id and stored.topic_id != topic_id:
            raise SetupError(
                f"the summaries of partition {partition} were published to the output topic "
                f"{topic} with the id {stored.topic_id}, which now has the id {topic_id}: it was "
                "deleted and created again, and would lack summaries that do not change again; "
                "publish all of them again with `coversumm-worker reset`, or set another "
                "COVERSUMM_OUTPUT_TOPIC to publish only changes from here on"
            )
        processor.publishes_to(partition, topic_id)
    if former:
        log.warning(
            "summaries were published to %s before; from here on only those that change are "
            "published to %s; for all of them start over with `coversumm-worker reset`, or %s",
            ", ".join(sorted(former)),
            topic,
            NEW_EPOCH,
        )
