"""The Prometheus metrics of a worker.

Counters and histograms count committed micro-batches; gauges are read when the page is requested.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from worker import __version__
from worker.credentials.files import certificate_expiries
from worker.credentials.tokens import kafka_tokens
from worker.events import Reason
from worker.limits import Limit
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.processing.stats import Stats

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25)
_BATCH_SIZES: Final = (1, 3, 10, 30, 100, 300, 1000, 3000)
_CERTIFICATES: Final = ("proved_reservoir", "refilled")

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series beside every counter, of no use here

M = TypeVar("M", bound=MetricWrapperBase)


class GaugeSource(Protocol):
    """The current state of a running worker."""

    def ready(self) -> tuple[bool, str]:
        """Readiness: the worker processes its partitions; and the reason."""

    def partitions(self) -> tuple[int, int]:
        """Number of partitions it processes, and of the input topic."""

    def lag(self) -> Mapping[int, int | None] | Mapping[str, int | None]:
        """Uncommitted records by partition; None if unknown. With several topics by
        TOPIC-PARTITION.
        """

    def undecided(self) -> dict[int, int]:
        """Records by partition behind an open transaction of an upstream producer, if known."""
        return {}

    def broker_silent_seconds(self) -> dict[str, float]:
        """Seconds by client since it last heard of a broker."""

    def refusal(self) -> str | None:
        """Why brokers refuse its login; None if they do not."""

    def rocksdb_bytes(self) -> int:
        """Memory of the databases, if there are any."""
        return 0


class Family(NamedTuple):
    """A metric family of Prometheus."""

    name: str
    kind: str
    labels: Sequence[str]
    help: str


class Metrics:
    """The metrics of a worker, or of another `component`; safe to use from any thread.

    With `settings` it shows when their certificates and tokens expire, and with `oldest` the data
    volume and how long the first uncommitted records wait, in seconds by partition.
    """

    oldest: Callable[[], Mapping[int, float]] | None = None

    def __init__(self, component: str = "worker", settings: Settings | None = None) -> None:
        self._component, self._settings = component, settings
        self.registry = CollectorRegistry()
        self.families: list[Family] = []
        self._sums: list[tuple[Callable[[Stats], float], Counter]] = []
        self._make_event_metrics()
        self._make_work_metrics()
        self._make_gauges()
        ProcessCollector(registry=self.registry)

    def _make_event_metrics(self) -> None:
        self._events = self._add(
            Counter,
            "events_total",
            "Records by event type (`none`: no event was read) and outcome: applied, "
            "ignored:REASON, dead_letter:REASON",
            "type",
            "outcome",
        )
        self._sum("changes", "summary_changes_total", "summary.changed events published")
        self._sum("facets_changes", "facets_changes_total", "facets.changed events published")
        self._sum("tombstones", "tombstones_total", "Tombstones of deleted entities published")
        self._dead_letters = self._add(
            Counter, "dead_letters_total", "Dead letters by reason", "reason", values=Reason
        )
        self._sum(
            "lone_surrogates",
            "lone_surrogates_total",
            "Records with a lone surrogate in JSON (half of an emoji), which was read as U+FFFD",
        )
        self._sum(
            "future_dates",
            "future_dates_total",
            "Dates after their record's time, which facets of dates take as unknown",
        )

    def _make_work_metrics(self) -> None:
        self._certificates = self._add(
            Counter,
            "steps_total",
            "Steps of entities by what decided them: proved_reservoir, refilled",
            "decided_by",
            values=_CERTIFICATES,
        )
        self._sum("core.refilled", "refills_total", "Reservoirs filled again from the index")
        self._sum(
            "core.visited",
            "refill_sentences_total",
            "Live sentences when refills searched them, added up",
        )
        self._sum("core.evaluations", "evaluations_total", "Times a whole reservoir was ranked")
        self._sum(
            "sentences_embedded", "embedded_sentences_total", "Sentences given to the embedder"
        )
        self._read_by_model = self._add(
            Counter,
            "model_languages_sentences_total",
            "Sentences that events give no vector, by whether the model declares the language of "
            "their review: yes, no, or unknown without a tag or detection",
            "declared",
            values=("yes", "no", "unknown"),
        )
        self._embed_seconds = self._add(
            Histogram,
            "embed_seconds",
            "Embedding the new sentences of a micro-batch",
            buckets=_SECONDS,
        )
        self._lookups = self._add(
            Counter,
            "vector_store_lookups_total",
            "Distinct new texts of micro-batches that were looked up in the vector store: hit, "
            "or miss and embedded",
            "result",
            values=("hit", "miss"),
        )
        self._process_seconds = self._add(
            Histogram,
            "process_seconds",
            "Processing a micro-batch, embedding included",
            buckets=_SECONDS,
        )
        self._commit_seconds = self._add(
            Histogram,
            "commit_seconds",
            "Committing a micro-batch: transaction and local rows",
            buckets=_SECONDS,
        )
        self._doubts = self._add(
            Counter,
            "commits_in_doubt_total",
            "Commits without an answer that could be relied on, by what was found out: "
            "committed, or not and repeated",
            "outcome",
            values=("committed", "repeated"),
        )
        self._batch_events = self._add(
            Histogram, "batch_events", "Records in a micro-batch", buckets=_BATCH_SIZES
        )
        self._limits = self._add(
            Counter,
            "limit_hits_total",
            "How often a limit was hit; each is in the table of limits",
            "limit",
            values=Limit,
        )
        self._cache_bytes = self._add(Gauge, "cache_bytes", "Memory of the entities in use")
        self._cache_entities = self._add(Gauge, "cache_entities", "Entities in use")
        self._vector_store_bytes = self._add(
            Gauge, "vector_store_bytes", "Disk of the vector store"
        )
        self._restored = self._add(Gauge, "restore_rows", "Changelog rows read by the last restore")
        self._to_restore = self._add(
            Gauge, "restore_remaining", "Changelog offsets the restore has to go"
        )

    def _make_gauges(self) -> None:
        self._ready = self._add(
            Gauge, "ready", "1 when the worker processes its partitions, else 0"
        )
        self._partitions = self._add(Gauge, "partitions", "Partitions that this worker processes")
        self._input_partitions = self._add(
            Gauge, "input_partitions", "Partitions of the input topic, for all workers together"
        )
        self._lag = self._add(
            Gauge,
            "lag_records",
            "Records up to the last stable offset that are not committed",
            "partition",
        )
        self._oldest = self._add(
            Gauge,
            "oldest_unprocessed_seconds",
            "Seconds that the first uncommitted record waits, by its timestamp; 0 without one",
            "topic",
            "partition",
        )
        self._undecided = self._add(
            Gauge,
            "upstream_open_transaction_records",
            "Records held back by an open transaction of a producer",
            "partition",
        )
        self._broker_silent = self._add(
            Gauge,
            "broker_silent_seconds",
            "Seconds since a client of the worker last heard of any broker: admin, consumer, "
            "producer",
            "client",
        )
        self._login_refused = self._add(
            Gauge,
            "login_refused",
            "1 while brokers refuse the worker's login, else 0",
        )
        self._rocksdb_bytes = self._add(
            Gauge,
            "rocksdb_bytes",
            "Memory of the databases: blocks, indexes, filters, write buffers",
        )
        self._volume_free, self._volume_size = (
            self._add(Gauge, f"data_volume_{what}_bytes", f"{help} of COVERSUMM_DATA_DIR", "path")
            for what, help in (("free", "Free space on the volume"), ("size", "Size of the volume"))
        )
        self._certificates_expiry = self._add(
            Gauge,
            "certificate_expiry_seconds",
            "Unix time at which the first certificate in a client's or server's file expires",
            "file",
        )
        self._token_expiry = self._add(
            Gauge,
            "token_expiry_seconds",
            "Unix time at which the last token for Kafka expires",
            "mechanism",
        )
        self._native = self._add(
            Gauge, "native", "1 if native code takes usual events, 0 if Python takes all"
        )
        build = self._add(
            Gauge,
            "build_info",
            "1; the build is in the labels, and the `component`: `worker`, `bridge` or `replay`",
            "version",
            "python",
            "component",
        )
        build.labels(__version__, platform.python_version(), self._component).set(1)

    def _add(
        self,
        kind: type[M],
        name: str,
        help: str,
        *labels: str,
        values: Iterable[str] = (),
        **options: Any,
    ) -> M:
        """`values`: of its label, whose series exist from the start."""
        full_name = f"coversumm_{name}"
        self.families.append(Family(full_name, kind.__name__.lower(), labels, help))
        made = kind(full_name, help, labels, registry=self.registry, **options)
        for value in values:
            made.labels(str(value))
        return made

    def _sum(self, figure: str, name: str, help: str) -> None:
        """A counter that adds up a figure of `Stats`."""
        self._sums.append((attrgetter(figure), self._add(Counter, name, help)))

    def observe_form(self, is_native: bool) -> None:
        """Native code takes usual events, or Python takes all."""
        self._native.set(is_native)

    def observe_batch(self, stats: Stats) -> None:
        """Count a committed micro-batch."""
        for (type_, outcome), count in stats.outcomes.items():
            self._events.labels(type_, outcome).inc(count)
        for reason, count in stats.dead_letters().items():
            self._dead_letters.labels(reason).inc(count)
        for figure_of, counter in self._sums:
            counter.inc(figure_of(stats))
        for name in _CERTIFICATES:
            self._certificates.labels(name).inc(getattr(stats.core, name))
        if stats.sentences_embedded:
            self._embed_seconds.observe(stats.embed_seconds)
        for declared, count in stats.read_by_model.items():
            self._read_by_model.labels(declared).inc(count)
        self._lookups.labels("hit").inc(stats.vectors_found)
        self._lookups.labels("miss").inc(stats.vectors_missed)
        if stats.vector_store_bytes is not None:
            self._vector_store_bytes.set(stats.vector_store_bytes)
        self._process_seconds.observe(stats.process_seconds)
        self._batch_events.observe(stats.records)
        for limit, hits in stats.limits.items():
            self._limits.labels(limit.value).inc(hits)
        self._cache_bytes.set(stats.cache_bytes)
        self._cache_entities.set(stats.cached_entities)

    def observe_commit(self, seconds: float) -> None:
        """Count a commit and its duration, local rows included."""
        self._commit_seconds.observe(seconds)

    def observe_doubt(self, committed: bool) -> None:
        """Count a commit in doubt that had happened, or had not and was repeated."""
        self._doubts.labels("committed" if committed else "repeated").inc()

    def observe_limit(self, limit: Limit) -> None:
        """Count a limit that was hit outside of the processing of a micro-batch."""
        self._limits.labels(limit.value).inc()

    def observe_restore(self, rows: int, remaining: int) -> None:
        """Set the progress of a restore: rows read, offsets remaining."""
        self._restored.set(rows)
        self._to_restore.set(remaining)

    def page(self, source: GaugeSource) -> bytes:
        """All metrics in Prometheus' text format."""
        self._ready.set(source.ready()[0])
        processed, all_partitions = source.partitions()
        self._partitions.set(processed)
        self._input_partitions.set(all_partitions)
        self._lag.clear()  # a partition that moved away must not keep its last lag
        for partition, records in source.lag().items():
            if records is not None:
                self._lag.labels(str(partition)).set(records)
        self._undecided.clear()
        for partition, records in source.undecided().items():
            self._undecided.labels(str(partition)).set(records)
        for client, seconds in source.broker_silent_seconds().items():
            self._broker_silent.labels(client).set(round(seconds, 1))
        self._login_refused.set(source.refusal() is not None)
        self._rocksdb_bytes.set(source.rocksdb_bytes())
        if self._settings is not None:
            self._look_up(self._settings)
        return generate_latest(self.registry)

    def _look_up(self, settings: Settings) -> None:
        self._certificates_expiry.clear()
        for file, expires in certificate_expiries(settings).items():
            self._certificates_expiry.labels(file).set(expires)
        if (tokens := kafka_tokens(settings)) is not None and tokens.expires:
            self._token_expiry.labels(settings.sasl_mechanism).set(tokens.expires)
        if self.oldest is None:
            return
        volume = shutil.disk_usage(settings.data_dir)
        self._volume_free.labels(str(settings.data_dir)).set(volume.free)
        self._volume_size.labels(str(settings.data_dir)).set(volume.total)
        self._oldest.clear()
        for partition, seconds in self.oldest().items():
            self._oldest.labels(settings.input_topic, str(partition)).set(round(seconds, 1))
