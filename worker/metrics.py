"""Prometheus metrics, on a registry of the worker's own. `METRICS` is the one list of them; the README's table is made from it.

Counts come from the processor's `Stats`, a micro-batch at a time; what changes by itself (lag, readiness) is asked for at
each scrape.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from worker import __version__
from worker.stream.processor import Stats

# From a millisecond to half a minute: a commit is some ten milliseconds, an embedding of a full micro-batch some seconds.
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Described(NamedTuple):
    """One metric as the README lists it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS = (
    Described(
        "coversumm_events_total", "counter", ("type", "outcome"), "Input records by event type and outcome"
    ),
    Described("coversumm_summary_changes_total", "counter", (), "Published `summary.changed` events"),
    Described("coversumm_tombstones_total", "counter", (), "Published tombstones of deleted entities"),
    Described("coversumm_dead_letters_total", "counter", ("reason",), "Dead letters by reason"),
    Described(
        "coversumm_steps_total",
        "counter",
        ("certificate",),
        "Changes of a live set by what proved the summary",
    ),
    Described(
        "coversumm_refills_total", "counter", (), "Reservoir refills, each a scan of the entity's rows"
    ),
    Described("coversumm_sentences_embedded_total", "counter", (), "Sentences given to the embedding engine"),
    Described("coversumm_embed_seconds", "histogram", (), "Embedding time of a micro-batch that embeds"),
    Described(
        "coversumm_process_seconds", "histogram", (), "Processing time of a micro-batch, embedding included"
    ),
    Described(
        "coversumm_commit_seconds", "histogram", (), "Time of a commit: the transaction and the local rows"
    ),
    Described("coversumm_cache_bytes", "gauge", (), "Memory of the entities in use"),
    Described("coversumm_cached_entities", "gauge", (), "Entities in memory"),
    Described("coversumm_restored_rows", "gauge", (), "Rows read by the last restore"),
    Described("coversumm_restore_remaining", "gauge", (), "Changelog offsets the running restore has to go"),
    Described(
        "coversumm_lag", "gauge", ("partition",), "Committed records of the input that are not processed yet"
    ),
    Described("coversumm_ready", "gauge", (), "1 while the worker processes its partitions"),
    Described("coversumm_build_info", "gauge", ("version",), "Always 1; the version is the label"),
)
_BY_NAME = {metric.name: metric for metric in METRICS}


class Metrics:
    """The worker's metrics. Methods are called from the delivery's thread, `render` from the web server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._events = self._counter("coversumm_events_total")
        self._changes = self._counter("coversumm_summary_changes_total")
        self._tombstones = self._counter("coversumm_tombstones_total")
        self._dead_letters = self._counter("coversumm_dead_letters_total")
        self._steps = self._counter("coversumm_steps_total")
        self._refills = self._counter("coversumm_refills_total")
        self._embedded = self._counter("coversumm_sentences_embedded_total")
        self._embed_seconds = self._histogram("coversumm_embed_seconds")
        self._process_seconds = self._histogram("coversumm_process_seconds")
        self._commit_seconds = self._histogram("coversumm_commit_seconds")
        self._cache_bytes = self._gauge("coversumm_cache_bytes")
        self._cached_entities = self._gauge("coversumm_cached_entities")
        self._restored_rows = self._gauge("coversumm_restored_rows")
        self._restore_remaining = self._gauge("coversumm_restore_remaining")
        self._gauge("coversumm_build_info").labels(__version__).set(1)
        self.started_at = time.time()

    def watch(self, ready: Callable[[], bool], lag: Callable[[], dict[int, int | None]]) -> None:
        """Ask these at each scrape."""
        self.registry.register(_Live(ready, lag))

    def observe_batch(self, stats: Stats) -> None:
        """Count a committed micro-batch."""
        for (event_type, outcome), count in stats.outcomes.items():
            self._events.labels(event_type, outcome).inc(count)
            kind, _, reason = outcome.partition(":")
            if kind == "dead_letter":
                self._dead_letters.labels(reason).inc(count)
        self._changes.inc(stats.changes)
        self._tombstones.inc(stats.tombstones)
        self._embedded.inc(stats.sentences_embedded)
        self._steps.labels("gap").inc(stats.core.proved_gap)
        self._steps.labels("reservoir").inc(stats.core.proved_reservoir)
        self._steps.labels("refill").inc(stats.core.refilled)
        self._refills.inc(stats.core.refilled)
        self._process_seconds.observe(stats.process_seconds)
        if stats.sentences_embedded:
            self._embed_seconds.observe(stats.embed_seconds)
        self._cache_bytes.set(stats.cache_bytes)
        self._cached_entities.set(stats.cached_entities)

    def observe_commit(self, seconds: float) -> None:
        """Time one commit."""
        self._commit_seconds.observe(seconds)

    def observe_restore(self, rows: int, remaining: int) -> None:
        """Follow a restore."""
        self._restored_rows.set(rows)
        self._restore_remaining.set(remaining)

    def render(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str) -> Counter:
        described = _BY_NAME[name]
        return Counter(name, described.help, described.labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        described = _BY_NAME[name]
        return Gauge(name, described.help, described.labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        return Histogram(name, _BY_NAME[name].help, registry=self.registry, buckets=SECONDS_BUCKETS)


class _Live:
    """A collector of what is known only when it is asked for."""

    def __init__(self, ready: Callable[[], bool], lag: Callable[[], dict[int, int | None]]) -> None:
        self._ready = ready
        self._lag = lag

    def describe(self) -> Iterable[Metric]:
        """No samples at registration: nothing may be asked yet."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Ask."""
        ready = GaugeMetricFamily("coversumm_ready", _BY_NAME["coversumm_ready"].help)
        ready.add_metric([], float(self._ready()))
        yield ready
        lag = GaugeMetricFamily("coversumm_lag", _BY_NAME["coversumm_lag"].help, labels=["partition"])
        for partition, records in self._lag().items():
            if records is not None:
                lag.add_metric([str(partition)], records)
        yield lag


def metrics_table() -> str:
    """The metrics as a Markdown table."""
    lines = ["| metric | kind | labels | what |", "|---|---|---|---|"]
    lines += [
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |"
        for m in METRICS
    ]
    return "\n".join(lines) + "\n"
