"""`bridge`: a topic of other fields and keys becomes the contract's events, keyed by entity.

Stateless: a batch is one transaction of its events, its dead letters and its source offsets. So
after a kill both are there or neither. Any number of bridges share the source's partitions as one
consumer group. Three rules keep the order within a source partition:

1. A takeover begins at the committed offsets, which are asked for once no transaction on them is
   open.
2. What was fetched while the group rebalanced is dropped and read again. Records below the cursor
   are dropped.
3. A cursor moves when its batch is committed, all of it or nothing. The broker refuses the offsets
   of a past generation, so a bridge that was paused past its session writes nothing. Topic ids are
   checked between flush and offsets: both topics are those of the takeover.

A commit without a reliable answer ends the process. Its next start takes over the transactional id,
which decides the transaction.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from worker.credentials.files import kafka_login
from worker.errors import Crash, Fenced, SetupError, many
from worker.events import Record
from worker.events.notes import NOTES
from worker.kafka.clients import Clients, ContactErrors
from worker.kafka.contact import CONSUMER, Announcer, Contact
from worker.kafka.errors import OVERTAKEN, is_retriable, patiently, session_refused
from worker.kafka.group import foreign_group, refuse_foreign
from worker.kafka.offsets import OF_TOPICS
from worker.kafka.permissions import READ, WRITE, named
from worker.kafka.reader import is_unreadable, passed_by, record_of
from worker.kafka.topic_ids import TopicIds
from worker.kafka.topic_mapping import cached_partitions, with_schemas
from worker.kafka.topics import Topics, TopicSpec, check_configs, topic_specs
from worker.kafka.transactions import Hung, TransactionError, Transactions, UnwrittenError
from worker.mapping import TopicMapping, load_mapping
from worker.mapping.contract import ContractWriter
from worker.processing.config import event_limits
from worker.processing.stats import Stats
from worker.settings import Settings
from worker.settings.kinds import name
from worker.stream.journal import INTERVAL_SECONDS, DeadLetterLog
from worker.stream.surroundings import Threads
from worker.stream.watchdog import refused_login
from worker.telemetry.metrics import GaugeSource, Metrics

log = logging.getLogger(__name__)

START_SECONDS: Final = 20.0
"""Seconds to take over the transactional id, and to fetch committed offsets."""
ABORT_SECONDS: Final = 5.0
"""Seconds for the abort of a transaction that the group refused."""
CONTACT_SECONDS: Final = 2.0
"""Interval of requests to the broker while no record arrives, and their timeout."""
SCHEMA_PAUSE_SECONDS: Final = 0.5
"""Pause between two requests for a schema that could not be fetched."""
LAG_SECONDS: Final = 1.0
"""Interval of measuring the lag."""


def bridge_settings(settings: Settings, source: str, file: Path) -> Settings:
    """The bridge's settings: its group and dead letters are those of the source topic."""
    if source == settings.input_topic:
        raise SetupError(
            f"--from {source}: it is COVERSUMM_INPUT_TOPIC, to which the bridge writes: set that "
            "to the topic that the workers read"
        )
    return replace(
        settings,
        app_id=f"{settings.app_id}-bridge-{source}"[:200],
        input_topic=source,
        output_topic=settings.input_topic,
        dlq_topic=f"{source}.dlq",
        mapping=file,
    )


def settings_of_sources(settings: Settings, sources: str, file: Path) -> list[Settings]:
    """`bridge_settings` of each topic of a list that commas separate. Raises SetupError."""
    found: dict[str, Settings] = {}  # by group
    for source in map(str.strip, sources.split(",")):
        try:
            name(249).parse(source)
        except ValueError:
            raise SetupError(f"--from {sources}: {source!r} is not the name of a topic") from None
        own = bridge_settings(settings, source, file)
        if (other := found.setdefault(own.app_id, own)) is not own:
            raise SetupError(
                f"--from {sources}: {other.input_topic} and {source} would share the group "
                f"{own.app_id}: name each topic once"
            )
    return [*found.values()]


def source_mapping(settings: Settings) -> TopicMapping:
    """The mapping of the source topic. Raises SetupError and FileErrors."""
    assert settings.mapping is not None
    topics = load_mapping(settings.mapping, settings.input_topic)
    if settings.input_topic not in topics:
        raise SetupError(
            f'{settings.mapping} has no [topic."{settings.input_topic}"], only '
            f"{', '.join(topics)}: add it, or name one of these with --from"
        )
    return topics[settings.input_topic]


def prepare_bridge(settings: Settings, clients: Clients) -> tuple[int, int]:
    """Create the dead letter topic, or add partitions to it; the counts of source and target.

    Raises SetupError if a topic or the broker is not as required.
    """
    specs = topic_specs(settings)
    letters = specs["dead letters"]
    largest = {"max.message.bytes": letters.config["max.message.bytes"]}
    kept = {
        "source": TopicSpec("source", settings.input_topic),
        "target": TopicSpec("target", settings.output_topic, largest),
        "dead letters": letters,
    }
    topics = Topics(settings, clients, specs=kept, patient=True)
    if not patiently(lambda: topics.exists(settings.input_topic, READ)):
        raise SetupError(f"--from {settings.input_topic}: there is no such topic")
    if not patiently(lambda: topics.exists(settings.output_topic, WRITE)):
        raise SetupError(
            f"the topic {settings.output_topic} does not exist (COVERSUMM_INPUT_TOPIC): create it "
            "with `coversumm-worker topics --partitions N`"
        )
    count = topics.partitions[settings.input_topic]
    missing = [spec for spec in patiently(topics.missing) if spec.role == "dead letters"]
    patiently(lambda: topics.create(missing, count))
    if topics.partitions[letters.name] < count:  # the source got more
        patiently(lambda: topics.grow(letters.name, count))
    check_configs(topics)
    return count, topics.partitions[settings.output_topic]


class Bridge(GaugeSource):
    """One process of a bridge, and the `GaugeSource` of its metrics.

    Args:
        settings: those of `bridge_settings`.
        clients: of the broker with these settings.
        metrics: counts records and commits.

    Raises:
        SetupError: the mapping, a topic or the broker is not as required.
    """

    def __init__(self, settings: Settings, clients: Clients, metrics: Metrics) -> None:
        self._settings, self._clients = settings, clients
        self._metrics = metrics
        self._source = settings.input_topic
        mapping, self._schemas = with_schemas(settings, source_mapping(settings))
        assert mapping is not None
        self._with_headers = mapping.needs_headers
        self._sources, targets = prepare_bridge(settings, clients)
        self._topics = BridgedTopics(settings, clients)
        self._writer = ContractWriter(
            mapping,
            settings.output_topic,
            cached_partitions(targets),
            settings.dlq_topic,
            settings.max_message_bytes,
            event_limits(settings),
        )
        self._transactions = Transactions(
            clients,
            settings.transactional_id,
            timeout_ms=settings.transaction_timeout_ms,
            write_seconds=settings.commit_timeout_ms / 1000,
            abort_seconds=ABORT_SECONDS,
            options={"linger.ms": 1, "message.max.bytes": settings.max_message_bytes},
        )
        self._contact = Contact(settings.broker_timeout_ms / 1000)
        self._consumer: Consumer = clients.standalone_consumer(
            settings.app_id,
            "read_committed",
            {
                "auto.offset.reset": "error",
                "session.timeout.ms": settings.session_timeout_ms,
                "partition.assignment.strategy": "range",
                "queued.max.messages.kbytes": 32 * 1024,
                "error_cb": ContactErrors(settings, self._contact, CONSUMER, log),
            },
        )
        self._login = kafka_login(settings)
        self._logged_in = self._login.current()
        self._cursors: dict[int, int] = {}
        self._internal_errors = 0  # in a row, at the end of what is committed
        self._admin = clients.admin()
        self._passed: set[int] = set()  # partitions with a batch that the client does not read
        self._tenure = 0  # counts assignments and revocations
        self._membership: Any = None
        self._is_assigned = False
        self._moved_at = time.monotonic()
        self._contact.heard(CONSUMER)
        self._announcer = Announcer(self._contact)
        self._lags: dict[int, int | None] = {}
        self._measured_at = 0.0
        self._letters = DeadLetterLog(Threads(), settings.dlq_topic)
        self._reported_at = time.monotonic()

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Bridge until `is_stopping`. Raises Crash and Fenced."""
        written = self._settings.output_topic, self._settings.dlq_topic
        needed = {self._source: READ, **dict.fromkeys(written, WRITE)}
        try:
            self._run(is_stopping)
        except Crash as cause:
            raise named(cause, self._settings, self._clients, needed) from cause.__cause__

    def _run(self, is_stopping: Callable[[], bool]) -> None:
        try:
            self._transactions.take_over(START_SECONDS)
            self._consumer.subscribe(
                [self._source], on_assign=self._assigned, on_revoke=self._revoked
            )
            while not is_stopping():
                records = self._fetch()
                self._moved_at = time.monotonic()
                if records and self._schemas_known(records):
                    self._commit(records)
                self._keep_contact()
                self._measure_lag()
                self._tell_letters()
        except KafkaException as cause:
            raise Crash(f"the bridge of {self._source} failed: {cause.args[0].str()}") from cause
        finally:
            self._letters.log_counts()
            self._consumer.close()  # leaves the group: others take over at once

    # -- the group

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Rule 1. An exception here reaches `consume`."""
        self._tenure += 1
        refuse_foreign(self._admin, self._settings.app_id)
        if any(partition.partition >= self._sources for partition in partitions):
            self._sources = prepare_bridge(self._settings, self._clients)[0]
            self._transactions.ask(self._settings.dlq_topic, START_SECONDS)
        self._topics.read()
        starts = consumer.committed(partitions, START_SECONDS)
        for start in starts:
            if start.error is not None:
                raise KafkaException(start.error)
            self._topics.check(start)
            if start.offset == OFFSET_INVALID:  # the group has committed none
                start.offset = consumer.get_watermark_offsets(start, START_SECONDS)[0]
        consumer.assign([TopicPartition(s.topic, s.partition, s.offset) for s in starts])
        self._cursors = {start.partition: start.offset for start in starts}
        self._membership = consumer.consumer_group_metadata()
        self._is_assigned = True
        log.info("bridging %s from %s", self._source, self._cursors)

    def _revoked(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._tenure += 1
        self._cursors = {}
        self._is_assigned = False

    # -- a batch

    def _fetch(self) -> list[Record]:
        """The next records, by rule 2."""
        tenure = self._tenure
        seconds = self._settings.batch_linger_ms / 1000
        messages: list[Any] = self._consumer.consume(self._settings.batch_size, max(seconds, 0.05))
        if self._tenure != tenure:
            self._read_again()
            return []
        records: list[Record] = []
        ends = dict(self._cursors)
        for message in messages:
            if is_unreadable(message):
                if message.partition() not in self._passed and message.partition() in ends:
                    record = passed_by(self._clients, self._settings.app_id, message)
                    records.append(record)
                    ends[record.partition] = record.offset + 1
                    self._passed.add(record.partition)
                continue
            if (error := message.error()) is not None:
                if is_retriable(KafkaException(error)):
                    continue
                raise self._fatal(error, message.partition()) from KafkaException(error)
            if message.offset() >= ends.get(message.partition(), message.offset() + 1):
                records.append(record_of(message, with_headers=self._with_headers))
                ends[message.partition()] = message.offset() + 1
        if records:
            self._contact.heard(CONSUMER)
        return records

    def _fatal(self, error: KafkaError, partition: int) -> BaseException:
        """The exception that ends the process after an error of the consumer."""
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            return SetupError(self._outside(partition))
        if error.code() == KafkaError.INVALID_SESSION_TIMEOUT:
            return session_refused(self._settings)
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            return foreign_group(self._clients, self._settings.app_id)
        return Crash(f"{self._source} [{partition}]: {error.str()}")

    def _outside(self, partition: int) -> str:
        return (
            f"the offset {self._cursors.get(partition)} of {self._source} [{partition}], to which "
            f"the group {self._settings.app_id} has read, is outside the log: records are gone, or "
            "the topic was created again; choose where to resume with "
            "`kafka-consumer-groups.sh --reset-offsets`"
        )

    def _schemas_known(self, records: Sequence[Record]) -> bool:
        """True if the schemas of these records are known. If not, fetches them, and drops the
        records to be read again: the group expects a poll from time to time.
        """
        if self._schemas is None or not (ids := self._schemas.missing(records)):
            return True
        self._schemas.fetch(ids)
        if not self._schemas.missing(records):
            return True
        time.sleep(SCHEMA_PAUSE_SECONDS)
        self._read_again()
        return False

    def _commit(self, records: Sequence[Record]) -> None:
        """Rule 3. Raises Crash and Fenced."""
        started = time.monotonic()
        before = NOTES.records
        messages, outcomes, in_a_row = self._writer.write(records, self._internal_errors)
        processed = time.monotonic()
        ends = {record.partition: record.offset + 1 for record in records}
        note = self._topics.note()
        offsets = [TopicPartition(self._source, *end, metadata=note) for end in ends.items()]
        check = self._topics.ask_ahead()
        try:
            timeout_s = self._settings.commit_timeout_ms / 1000
            with self._transactions.transaction(timeout_s) as transaction:
                transaction.produce(messages)
                transaction.commit(offsets, self._membership, check)
        except (UnwrittenError, Hung) as cause:
            raise Crash(f"a commit of {self._source} was not answered in time") from cause
        except TransactionError as cause:
            self._failed(cause, time.monotonic() - started)
            return
        self._cursors |= ends
        self._internal_errors = in_a_row
        if self._passed:
            self._read_again()  # the client itself does not go on
        notes = NOTES.take()
        stats = Stats(outcomes=outcomes, process_seconds=processed - started, mapping_notes=notes)
        stats.lone_surrogates = NOTES.records - before
        self._letters.count(stats)
        self._metrics.observe_batch(stats)
        self._metrics.observe_commit(time.monotonic() - processed)

    def _failed(self, cause: TransactionError, seconds: float) -> None:
        """After an abort: read again what the group has given to others, else end the process."""
        if cause.error.code() in OVERTAKEN:
            log.info("a batch was dropped, its partitions are being given to others: %s", cause)
            self._read_again()
            return
        if cause.fenced and seconds < self._settings.transaction_timeout_ms / 1000:
            raise Fenced(
                f"another bridge has the instance id {self._settings.instance_id} ({cause}); give "
                "each its own COVERSUMM_INSTANCE_ID"
            ) from cause
        raise Crash(f"a commit of {self._source} failed: {cause}") from cause

    def _read_again(self) -> None:
        """Drop what is fetched, and fetch from the cursors."""
        self._passed.clear()
        if self._is_assigned:
            starts = [TopicPartition(self._source, *start) for start in self._cursors.items()]
            self._consumer.assign(starts)

    def _measure_lag(self) -> None:
        """Measure the lag by the ends of the last fetches; the client may be used by this thread
        only.
        """
        if time.monotonic() - self._measured_at < LAG_SECONDS:
            return
        self._measured_at = time.monotonic()
        lags: dict[int, int | None] = {}
        for partition, cursor in self._cursors.items():
            place = TopicPartition(self._source, partition)
            high = self._consumer.get_watermark_offsets(place, cached=True)[1]
            lags[partition] = max(0, high - cursor) if high >= 0 else None
        self._lags = lags

    def _tell_letters(self) -> None:
        if time.monotonic() - self._reported_at >= INTERVAL_SECONDS:
            self._reported_at = time.monotonic()
            self._letters.log_counts()

    def _keep_contact(self) -> None:
        """Ask the broker for the topic if it has been silent for a while. A long refusal ends the
        process, at once if the next start has other credentials.
        """
        if line := self._announcer.back():
            log.info("%s", line)
        if self._contact.silence(CONTACT_SECONDS) is None:
            return
        try:
            self._consumer.list_topics(self._source, timeout=CONTACT_SECONDS)
        except KafkaException as cause:
            if not is_retriable(cause):
                raise
            self._contact.failed(CONSUMER, cause.args[0].str())
            if line := self._announcer.lost():
                log.warning("%s", line)
            is_old = self._login.current() is self._logged_in
            seconds = self._settings.stall_timeout_ms / 1000 if is_old else 0.0
            if refusal := self._contact.refusal(seconds):
                raise refused_login(refusal, seconds) from None
        else:
            self._contact.heard(CONSUMER)

    # -- state, for probes and metrics

    @property
    def is_alive(self) -> bool:
        """True if the loop runs: it may stand still for at most COVERSUMM_STALL_TIMEOUT_MS."""
        return time.monotonic() - self._moved_at < self._settings.stall_timeout_ms / 1000

    def ready(self) -> tuple[bool, str]:
        if self._contact.silence() is not None:
            refusal = self.refusal()
            return False, f"no broker answers: {refusal}" if refusal else "no broker answers"
        if not self._is_assigned:
            return False, "waiting for the group"
        if self._schemas is not None and self._schemas.waiting:
            return False, self._schemas.waiting
        return True, f"bridging {many(len(self._cursors), 'partitions')} of {self._source}"

    def partitions(self) -> tuple[int, int]:
        return len(self._cursors), self._sources

    def lag(self) -> dict[int, int | None]:
        """See `GaugeSource`; by the last fetch."""
        return self._lags

    def broker_silent_seconds(self) -> dict[str, float]:
        return self._contact.silent_seconds()

    def refusal(self) -> str | None:
        return self._contact.refusal()


class Bridges(GaugeSource):
    """The bridges of several topics in one process, and the `GaugeSource` of their metrics.

    Each has its own group, transactional id and thread, as in a process of its own. So a topic
    keeps its offsets when others join the list or leave it.
    """

    def __init__(self, bridges: Mapping[str, Bridge]) -> None:
        """`bridges`: by source topic."""
        self._bridges = bridges

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Bridge until `is_stopping`. The first failure of one stops all, and is raised."""
        failures: list[BaseException] = []

        def run(bridge: Bridge) -> None:
            try:
                bridge.run(lambda: is_stopping() or bool(failures))
            except BaseException as cause:
                failures.append(cause)

        threads = [
            Thread(target=run, args=[bridge], name=f"bridge of {source}")
            for source, bridge in self._bridges.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    @property
    def is_alive(self) -> bool:
        """True if all loops run."""
        return all(bridge.is_alive for bridge in self._bridges.values())

    def ready(self) -> tuple[bool, str]:
        """See `GaugeSource`; ready once all are."""
        found = {source: bridge.ready() for source, bridge in self._bridges.items()}
        waiting = [f"{source}: {why}" for source, (is_ready, why) in found.items() if not is_ready]
        return not waiting, "; ".join(waiting or [why for _, why in found.values()])

    def partitions(self) -> tuple[int, int]:
        """See `GaugeSource`; of all topics together."""
        own, all_partitions = zip(
            *(bridge.partitions() for bridge in self._bridges.values()), strict=True
        )
        return sum(own), sum(all_partitions)

    def lag(self) -> dict[str, int | None]:
        """See `GaugeSource`; by TOPIC-PARTITION."""
        return {
            f"{source}-{partition}": records
            for source, bridge in self._bridges.items()
            for partition, records in bridge.lag().items()
        }

    def broker_silent_seconds(self) -> dict[str, float]:
        """See `GaugeSource`; the longest of all."""
        found: dict[str, float] = {}
        for bridge in self._bridges.values():
            for client, seconds in bridge.broker_silent_seconds().items():
                found[client] = max(seconds, found.get(client, 0.0))
        return found

    def refusal(self) -> str | None:
        """See `GaugeSource`."""
        return next(filter(None, (bridge.refusal() for bridge in self._bridges.values())), None)


class BridgedTopics:
    """The source and the target of a bridge by their ids, beside its committed offsets.

    An offset means nothing in a later topic of the same name, and a target that was created again
    lacks what was bridged before. So the ids are the metadata of each committed offset. Offsets
    that an operator sets have none: they hold for the topics as they are. Kafka itself forgets the
    offsets of a source that is deleted.
    """

    def __init__(self, settings: Settings, clients: Clients) -> None:
        self._group = settings.app_id
        self._source, self._target = self._names = settings.input_topic, settings.output_topic
        self._ids = TopicIds(clients, self._names, {}, settings.commit_timeout_ms / 1000)

    def read(self) -> None:
        """Fetch the ids at a takeover. Raises Crash if one changed since the first takeover."""
        self._ids.read()

    def ask_ahead(self) -> Callable[[], None]:
        """Request the ids. The result waits for the answer, and raises Crash as `read` does."""
        return self._ids.ask_ahead(self._names)

    def note(self) -> str:
        """The metadata of offsets that are committed now."""
        source, target = map(self._ids.known, self._names)
        return f"{OF_TOPICS} {source} {target} {self._target}"

    def check(self, start: TopicPartition) -> None:
        """Raise SetupError if a committed offset is of other topics."""
        match (start.metadata or "").split(" "):
            case [note, source, target, name] if note == OF_TOPICS:
                self._compare(start, self._source, source)
                if name == self._target:  # another one is the operator's decision
                    self._compare(start, self._target, target)
            case [""] if start.offset != OFFSET_INVALID:
                log.warning(
                    "no bridge has committed the offset %d of %s [%d], where this one begins: "
                    "another client of the group did, or an operator",
                    start.offset,
                    start.topic,
                    start.partition,
                )

    def _compare(self, start: TopicPartition, topic: str, stored: str) -> None:
        found = self._ids.known(topic)
        if stored and found and stored != found:
            raise SetupError(
                f"the group {self._group} has read {start.topic} [{start.partition}] to offset "
                f"{start.offset} when {topic} had the id {stored}, and now it has the id {found}: "
                "it was deleted and created again; choose where to resume with "
                "`kafka-consumer-groups.sh --reset-offsets`"
            )
