"""The composition root puts a worker together, and alone knows all of its parts.

`build_app` checks the surroundings before the worker joins its group, so that any error ends in one
clear line and exit code 2.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from worker.credentials.files import client_context, server_context
from worker.errors import SetupError
from worker.extras import install_command
from worker.kafka.changelog import ChangelogLog, Logs
from worker.kafka.clients import WORKER_LOG, ContactErrors, KafkaClients
from worker.kafka.contact import ADMIN, CONSUMER, PRODUCER, Contact
from worker.kafka.errors import patiently
from worker.kafka.group import check_group_metadata
from worker.kafka.offsets import InputLog
from worker.kafka.permissions import named
from worker.kafka.producer import TransactionalProducer, write_seconds
from worker.kafka.topic_ids import TopicIds
from worker.kafka.topics import TopicSpec, changelog_topic, prepare_topics, topic_specs
from worker.limits import Limit
from worker.parts import Parts
from worker.processing.config import check_index
from worker.processing.native import check_native, why_python
from worker.processing.pace import Pace
from worker.processing.processor import Processor
from worker.registry.lookup import AsJson
from worker.registry.output import AvroOutput, avro_output
from worker.replay.run import check_resumable
from worker.settings import Settings, unknown_settings
from worker.settings.environment import traces_endpoint, traces_protocol
from worker.storage.databases import Databases
from worker.storage.lock import lock_data_dir
from worker.storage.vectors import open_vector_store
from worker.stream.assignment import Assignment
from worker.stream.commit import Commit, CommitQueue
from worker.stream.delivery import Delivery
from worker.stream.faust.application import CoverSummApp, faust_app
from worker.stream.faust.client_log import route_errors
from worker.stream.faust.process import check_faust, run, use_event_loop
from worker.stream.feed import ChangeFeed
from worker.stream.gate import Gate
from worker.stream.group_fingerprint import GroupFingerprint
from worker.stream.journal import DeadLetterLog, Journal, log_form, log_start
from worker.stream.queries import EntityLister, ViewReader
from worker.stream.run_bounds import ENDLESS, RunBounds
from worker.stream.settlement import Settlement
from worker.stream.status import WorkerStatus
from worker.stream.surroundings import (
    NO_TRACING,
    ProcessorThread,
    Surroundings,
    Tracing,
    WorkerMetrics,
    die,
    leaving_first,
)
from worker.stream.takeover import Takeover
from worker.stream.watchdog import Watchdog
from worker.stream.worker import StreamWorker
from worker.telemetry.metrics import Metrics
from worker.text.declared import facts_of
from worker.web.page import add_widget, install_page
from worker.web.page.history import RecentHistory
from worker.web.routes import add_pages, install_web
from worker.web.server import check_port

log = logging.getLogger(__name__)

TRACES_PROTOCOL = "http/protobuf"


@dataclass(frozen=True)
class BoundedRun:
    """A run of the worker that ends at given offsets."""

    make_bounds: Callable[[int, Parts], RunBounds]
    """Makes its bounds from the input's partition count and the parts. Raises SetupError."""
    specs: Mapping[str, TopicSpec]  # the topics it needs, by role
    die: Callable[[BaseException], NoReturn]  # ends its process


def run_worker(settings: Settings, bounded_run: BoundedRun | None = None) -> int:
    """Run the worker to a signal or its end; the exit code. Raises SetupError before it joins."""
    use_event_loop()
    app = build_app(settings, bounded_run)
    try:
        return run(app, settings.shutdown_timeout_ms / 1000)
    finally:
        app.stream_worker.surroundings.tracing.close()


def build_app(settings: Settings, bounded_run: BoundedRun | None = None) -> CoverSummApp:
    """Check the surroundings, take over the transactional id, and put the worker on Faust.

    Raises SetupError if a setting, the data directory, the model or the broker is not as required.
    """
    started = time.monotonic()
    tracing = open_tracing(settings)
    check_faust()
    check_index(settings.index)
    check_native(settings.native)
    check_port(settings.web_bind, settings.web_port)
    server_context(settings)
    client_context(settings)
    lock_data_dir(settings.data_dir, of_replay=bounded_run is not None)
    parts = Parts.of(settings)  # before any broker is asked
    avro = avro_output(settings)
    clients = patiently(lambda: KafkaClients(settings, WORKER_LOG))
    app: CoverSummApp | None = None  # Faust creates the consumer when the app starts

    def leave_group() -> None:
        if app is not None:
            app.consumer.leave_group()

    async def seek() -> None:
        assert app is not None
        await app.consumer.perform_seek()

    specs = topic_specs(settings) if bounded_run is None else bounded_run.specs
    needed = {spec.name: spec.operations for spec in specs.values()}
    leave_and_die = leaving_first(die if bounded_run is None else bounded_run.die, leave_group)

    def end(cause: BaseException) -> NoReturn:
        leave_and_die(named(cause, settings, clients, needed))

    partitions = prepare_topics(settings, clients, end, specs)
    if bounded_run is None:
        patiently(lambda: check_resumable(settings, clients))
    bounds = ENDLESS if bounded_run is None else bounded_run.make_bounds(partitions, parts)
    check_group_metadata(clients, settings.app_id, settings.group_instance_id)
    vectors = open_vector_store(settings, parts.engine)
    databases = Databases(settings.data_dir, settings.rocksdb_bytes, partitions, end)
    metrics = Metrics("worker" if bounded_run is None else "replay", settings)
    worker = assemble(
        parts=parts,
        partitions=partitions,
        metrics=metrics,
        surroundings=Surroundings(
            clients, databases, vectors, die=end, started=started, tracing=tracing
        ),
        seek=seek,
        bounds=bounds,
        avro=avro,
    )
    worker.group.check_before_joining()
    worker.producer.start()
    route_errors(ContactErrors(settings, worker.contact, CONSUMER, WORKER_LOG))
    languages = () if parts.facets is None else parts.facets.definitions.named_languages
    log_start(settings, partitions, parts.engine, languages)
    log_form(worker.why_python)
    app = on_faust(worker, metrics)
    return app


def assemble(
    parts: Parts,
    partitions: int,
    metrics: WorkerMetrics,
    surroundings: Surroundings,
    seek: Callable[[], Awaitable[None]],
    bounds: RunBounds = ENDLESS,
    avro: AvroOutput | None = None,
) -> StreamWorker:
    """Put a worker together over its surroundings, real or simulated; it reads and writes nothing.

    `partitions` is the input's partition count, `seek` the consumer's seek, which ends a takeover.
    `avro` writes summaries and facets.
    """
    settings, schemas = parts.settings, parts.schemas
    clients, databases = surroundings.clients, surroundings.databases
    clock, threads = surroundings.clock, surroundings.threads
    changelog = changelog_topic(settings)
    contact = Contact(settings.broker_timeout_ms / 1000, clock)
    config = parts.config(partitions, bounds.emit, bounds.selection, avro)
    output = None if config.emit == "none" else config.output_topic
    facets = config.facets_topic if output and config.facets is not None else None
    outputs = [topic for topic in (output, facets) if topic]
    ids = TopicIds(
        clients=clients,
        topics=(settings.input_topic, *outputs, changelog),
        partitions={settings.input_topic: partitions},
        timeout_seconds=settings.commit_timeout_ms / 1000,
        clock=clock,
        on_error=ContactErrors(settings, contact, ADMIN, WORKER_LOG),
        planned={settings.input_topic: bounds.topic_id},
    )
    logs = Logs(
        input=InputLog(
            clients=clients,
            topic=settings.input_topic,
            group=settings.app_id,
            clock=clock,
            first=bounds.first,
            file_ranges={} if bounds.history is None else bounds.history.partitions(),
            ends=bounds.ends,
        ),
        changelog=ChangelogLog(
            clients=clients, topic=changelog, group=settings.app_id, ids=ids, clock=clock
        ),
        ids=ids,
        output=output,
        facets=facets,
    )
    assignment = Assignment(clock, Journal(clock, partitions, surroundings.started))
    pace = Pace(settings.batch_ms / 1000, clock, assignment.progress.made, write_seconds(settings))
    processor = Processor(config, databases.rows, parts.engine, pace, surroundings.vectors)
    metrics.observe_form(processor.is_native)
    processor_thread = ProcessorThread(processor, threads.in_order("processing"))
    gate = Gate(
        changelog=changelog,
        assignment=assignment,
        databases=databases,
        topic_ids=ids,
        threads=threads,
    )
    producer = TransactionalProducer(
        settings=settings,
        clients=clients,
        on_full=lambda: metrics.observe_limit(Limit.IN_FLIGHT),
        clock=clock,
        bounded=threads.within,
        on_error=ContactErrors(settings, contact, PRODUCER, WORKER_LOG),
    )
    group = GroupFingerprint(logs.changelog, config.fingerprint)
    dead_letters = DeadLetterLog(
        threads,
        None if bounds is ENDLESS else settings.dlq_topic,
        facts_of(parts.engine).languages or (),
    )
    feed = ChangeFeed(
        topic=config.output_topic,
        facets_topic=config.facets_topic,
        threads=threads,
        as_json=None if avro is None else avro.to_json,
        has_facets=bool(settings.facets),
    )
    takeover = Takeover(
        assignment=assignment,
        logs=logs,
        gate=gate,
        processor=processor_thread,
        group=group,
        decide_open=producer.decide_open,
        seek=seek,
        on_restore=metrics.observe_restore,
        surroundings=surroundings,
        ledger=bounds.ledger,
    )
    commits = CommitQueue(
        commit=Commit(
            producer=producer,
            logs=logs,
            group=group,
            gate=gate,
            processor=processor,
            metrics=metrics,
            dead_letters=dead_letters,
            feed=feed,
            size=pace.transaction,
            clock=clock,
            ledger=bounds.ledger,
        ),
        settlement=Settlement(
            settings=settings,
            assignment=assignment,
            producer=producer,
            takeover=takeover,
            contact=contact,
            surroundings=surroundings,
        ),
        assignment=assignment,
        surroundings=surroundings,
    )
    return StreamWorker(
        settings=settings,
        partitions=partitions,
        surroundings=surroundings,
        contact=contact,
        logs=logs,
        assignment=assignment,
        summaries=ViewReader(
            processor.begun, databases, threads, surroundings.die, config, parts.engine
        ),
        entities=EntityLister(processor.begun, databases, threads, surroundings.die),
        producer=producer,
        dead_letters=dead_letters,
        feed=feed,
        group=group,
        takeover=takeover,
        why_python=why_python(config),
        delivery=Delivery(
            settings=settings,
            assignment=assignment,
            processor=processor_thread,
            commits=commits,
            surroundings=surroundings,
            schemas=schemas,
        ),
        bounds=bounds,
        with_headers=schemas is not None
        or (config.mapping is not None and config.mapping.needs_headers),
        schemas=schemas,
    )


def on_faust(worker: StreamWorker, metrics: Metrics) -> CoverSummApp:
    """The worker as a Faust app with its web pages. Raises SetupError if its port is in use."""
    app = faust_app(worker)
    settings, surroundings = worker.settings, worker.surroundings
    status = WorkerStatus(app, worker)
    metrics.oldest, app.watch_oldest = status.oldest_unprocessed_seconds, status.watch_oldest
    app.watchdog = Watchdog(
        status.stall,
        lambda: status.progressed_at,
        settings.stall_timeout_ms / 1000,
        surroundings.die,
    )
    application = install_web(app, settings.web_path, server_context(settings))
    pages = add_pages(application, status, metrics, settings)
    add_widget(application, settings.review_url)
    if settings.web_page:
        history = RecentHistory(
            surroundings.clients,
            settings.output_topic,
            settings.facets_topic if settings.facets else None,
            settings.app_id,
            surroundings.threads.in_order("history"),
            AsJson(settings),
        )
        install_page(application, status, pages, worker.feed, history)
    return app


def open_tracing(settings: Settings) -> Tracing:
    """Tracing as the environment sets it, with OpenTelemetry only if a standard variable names a
    collector. Raises SetupError if that is impossible.
    """
    endpoint = traces_endpoint()
    if endpoint is None:
        return NO_TRACING
    variable, protocol = traces_protocol()
    if protocol not in ("", TRACES_PROTOCOL):
        raise SetupError(f"{variable}={protocol}: traces are sent as {TRACES_PROTOCOL} alone")
    try:
        from worker.telemetry.spans import exported
    except ImportError as cause:
        raise SetupError(
            f"{endpoint} is set, and opentelemetry is not installed ({cause}): unset it, or "
            f"{install_command('otel')}"
        ) from cause
    return exported(settings)


def __getattr__(name: str) -> Any:
    """`app`, for Faust's own command line; built at its first use, which reads settings."""
    if name != "app":
        raise AttributeError(name)
    if unknown := unknown_settings():
        log.warning("%s", unknown)
    built = build_app(Settings.from_environment())
    globals()["app"] = built
    return built
