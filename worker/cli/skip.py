"""`skip`: pass over a record that ends every worker, with a dead letter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from worker import __version__
from worker.cli.group import new_command
from worker.cli.options import PLACE
from worker.errors import Crash, SetupError
from worker.operations.letters import Place
from worker.settings import Settings
from worker.view import output

if TYPE_CHECKING:
    from worker.events import Record
    from worker.kafka.reader import TopicReader


@new_command(
    "skip",
    ("skip 3:991 --reason 'ends the worker'", "after all workers stopped"),
    ("skip 3:991 --reason 'ends it' --from shop.reviews", "for a bridge"),
)
@click.argument("place", type=PLACE, metavar="PARTITION:OFFSET")
@click.option("--reason", required=True, metavar="TEXT", help="For the dead letter's detail.")
@click.option(
    "--from", "source", metavar="TOPIC", help="The source topic of a bridge, for its group."
)
def command(place: Place, reason: str, source: str | None) -> None:
    """Pass over the record at this place of the input topic, as a last resort against one that ends
    every worker. One transaction writes a dead letter with the reason `skipped` and commits the
    offset after it.

    The record must be the next that the group reads. If it is not, run a worker with
    COVERSUMM_BATCH_SIZE=1, which commits all records before it.

    Refuses while a worker of the group runs. Waits for the sessions of stopped workers to expire
    (COVERSUMM_SESSION_TIMEOUT_MS).
    """
    settings = Settings.from_environment()
    if source is not None:
        from worker.bridge import bridge_settings

        settings = bridge_settings(settings, source, Path())
    skip(settings, place, reason)
    output.say(
        f"skipped {settings.input_topic} {place}; the dead letter is in {settings.dlq_topic}"
    )


def skip(settings: Settings, place: Place, reason: str) -> None:
    """Write the dead letter and commit past the place. Raises SetupError if it is not the next
    record of the group, or a worker runs.
    """
    from confluent_kafka import TopicPartition

    from worker.events import Reason, Rejected, dead_letter_message
    from worker.kafka.errors import broker_errors
    from worker.kafka.offsets import TIMEOUT_SECONDS, skip_note
    from worker.kafka.reader import TopicReader
    from worker.kafka.topics import reached
    from worker.kafka.transactions import Hung, TransactionError, Transactions, UnwrittenError
    from worker.operations.removal import refuse_members

    clients = reached(settings)
    admin, topic, group = clients.admin(), settings.input_topic, settings.app_id
    refuse_members(admin, group, settings.session_timeout_ms / 1000, output.note)
    transactions = Transactions(
        clients,
        f"{group}-skip",
        timeout_ms=settings.transaction_timeout_ms,
        write_seconds=TIMEOUT_SECONDS,
        abort_seconds=TIMEOUT_SECONDS,
        options={"message.max.bytes": settings.max_message_bytes},
    )
    with broker_errors(f"the broker did not start a transaction of {group}-skip"):
        transactions.take_over(TIMEOUT_SECONDS)
    letters = TopicReader(clients, settings.dlq_topic, group)  # it must exist
    with letters, TopicReader(clients, topic, group) as reader:
        before = reader.committed().get(place.partition)
        if before is not None and before.note.startswith("{"):
            raise SetupError(f"the group {group} is that of a replay: set COVERSUMM_APP_ID")
        record = _next_record(reader, place, None if before is None else before.offset)
        rejected = Rejected(Reason.SKIPPED, reason)
        if record.refused is not None:
            rejected = rejected._replace(detail=f"{reason} ({record.refused.detail})")
        letter = dead_letter_message(
            settings.dlq_topic, record, rejected, __version__, settings.max_message_bytes
        )
        following = TopicPartition(topic, place.partition, place.offset + 1, skip_note(before))

        def check() -> None:
            refuse_members(admin, group, 0, output.note)
            if reader.committed().get(place.partition) != before:
                raise SetupError(f"the group {group} has moved meanwhile: run the command again")

        try:
            with transactions.transaction(TIMEOUT_SECONDS) as transaction:
                transaction.produce([letter])
                transaction.commit([following], reader.group_metadata, check)
        except (UnwrittenError, Hung, TransactionError) as cause:
            raise Crash(f"{place} may not be skipped ({cause}): run the command again") from cause


def _next_record(reader: TopicReader, place: Place, committed: int | None) -> Record:
    """The record, refused if unreadable. Raises SetupError if the group reads another one next."""
    from worker.events import Reason, Record, Rejected

    partition, offset = place
    if partition not in reader.partitions or offset not in (bounds := reader.bounds(partition)):
        raise SetupError(f"{reader.topic} has no record at {place}")
    start = bounds.start if committed is None else committed
    try:
        found = next(iter(reader.read(partition, start)), None)
    except SetupError as cause:
        why = Rejected(Reason.SKIPPED, f"it cannot be read: {cause}")
        record = Record(reader.topic, partition, start, -1, None, None, refused=why)
    else:
        if found is None:
            raise SetupError(f"{reader.topic} has no record at {place}")
        record = found.record._replace(headers=tuple(found.headers.items()))
    if record.offset != offset:
        raise SetupError(
            f"the next record of the group is at {partition}:{record.offset}, not at {place}: only "
            "the next one can be skipped; run a worker with COVERSUMM_BATCH_SIZE=1, which commits "
            "the records before the one that ends it"
        )
    return record
