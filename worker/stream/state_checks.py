"""Checks at a takeover: restored state must fit the input it continues from, and its output.

Each raises SetupError if it does not.
"""

import logging
from collections.abc import Iterable

from worker.errors import SetupError
from worker.kafka.changelog import Logs
from worker.kafka.offsets import Start
from worker.processing.processor import Processor
from worker.state.errors import NEW_EPOCH

log = logging.getLogger(__name__)


def check_topic(processor: Processor, logs: Logs, partition: int) -> None:
    """Offsets of one topic mean nothing in another topic of the same name."""
    stored, topic_id = processor.topic_id(partition), logs.ids.known(logs.input.topic)
    if stored and topic_id and stored != topic_id:
        raise SetupError(
            f"the state of {logs.input.topic}-{partition} was made from the topic with the id "
            f"{stored}, which now has the id {topic_id}: it was deleted and created again, and "
            "its records would pass for applied ones; start over with `coversumm-worker reset`"
        )


def check_state(processor: Processor, logs: Logs, partition: int, start: Start) -> None:
    """Committed offsets may lie below the applied ones (rewound: those records are ignored).

    Beyond them rows or records would be missing.
    """
    applied = processor.check_partition(partition)
    if applied is None and not start.committed:
        return
    if applied is None or applied < start.offset:
        raise SetupError(
            f"{logs.input.topic}-{partition} would be read from offset {start.offset}, but the "
            f"state ends at {applied or 0}: records or rows of the changelog "
            f"{logs.changelog.topic} are gone, or offsets were moved forward; put the offsets "
            "back, or start over with `coversumm-worker reset`"
        )
    # The topic's end was read before the restore. State of the same topic beyond that end was made
    # by another worker that took over while this one was paused: this assignment is past, and the
    # broker refuses its commits.
    topic_id = logs.ids.known(logs.input.topic)
    if applied > start.end and not (topic_id and processor.topic_id(partition) == topic_id):
        raise SetupError(
            f"the state of {logs.input.topic}-{partition} ends at offset {applied}, the topic at "
            f"{start.end}: it was deleted and created again, and its records would pass for "
            "applied ones; start over with `coversumm-worker reset`"
        )


def check_output(processor: Processor, logs: Logs, partitions: Iterable[int]) -> None:
    """Refuse an output topic that was created again: it lacks the summaries that do not change.
    Likewise one of facets.

    Another name is the operator's decision, with one warning.
    """
    partitions = list(partitions)
    if logs.output is not None:
        _check_output(processor, logs, partitions, logs.output, "summaries")
    if logs.facets is not None:
        _check_output(processor, logs, partitions, logs.facets, "facets")


def _check_output(
    processor: Processor, logs: Logs, partitions: Iterable[int], output: str, what: str
) -> None:
    of_facets = what == "facets"
    setting = "COVERSUMM_FACETS_TOPIC" if of_facets else "COVERSUMM_OUTPUT_TOPIC"
    topic_id = logs.ids.known(output)
    before: set[str] = set()
    for partition in partitions:
        stored = processor.output(partition, of_facets=of_facets)
        if stored is not None and stored.topic != output:
            before.add(stored.topic)
        elif stored is not None and stored.topic_id and topic_id and stored.topic_id != topic_id:
            raise SetupError(
                f"the {what} of partition {partition} were published to the output topic "
                f"{output} with the id {stored.topic_id}, which now has the id {topic_id}: "
                f"it was deleted and created again, and would lack {what} that do not change "
                "again; publish all of them again with `coversumm-worker reset`, or set another "
                f"{setting} to publish only changes from here on"
            )
        processor.publishes_to(partition, topic_id, of_facets=of_facets)
    if before:
        log.warning(
            "%s were published to %s before; from here on only those that change are "
            "published to %s; for all of them start over with `coversumm-worker reset`, or %s",
            what,
            ", ".join(sorted(before)),
            output,
            NEW_EPOCH,
        )
