"""The dashboard's panels, row by row. Every metric of the worker is in one of its queries.

`$job` and `$instance` select the workers. A replay is a job of its own (`$replay`): its
workers have the same metrics, and their lag ends where the replay does.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

_OF = 'job=~"$job", instance=~"$instance"'
_OF_REPLAY = 'job=~"$replay"'
_WINDOW = "[$__rate_interval]"
_COUNT = "short"
_PER_SECOND = "ops"


class Query(NamedTuple):
    """A PromQL expression, and how its series are named: `{{label}}` is a label's value."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """Queries in one picture, `width` of 24 columns wide; the unit is one of Grafana's. A `stat` is
    the last value alone.
    """

    title: str
    unit: str
    queries: tuple[Query, ...]
    description: str
    width: int = 8
    kind: Literal["lines", "stacked", "stat"] = "lines"


class Row(NamedTuple):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


def _rate(metric: str, *, by: str = "", of: str = _OF) -> str:
    """The growth of a counter per second, summed, by these labels."""
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate(coversumm_{metric}{{{of}}}{_WINDOW}))"


def _sum(metric: str, *, by: str = "job") -> str:
    return f"sum by ({by}) (coversumm_{metric}{{{_OF}}})"


def _seconds(metric: str) -> tuple[Query, ...]:
    """Median and 99th percentile of a histogram."""
    return tuple(
        Query(f"histogram_quantile({share}, {_rate(f'{metric}_bucket', by='le')})", name)
        for share, name in ((0.5, "median"), (0.99, "99th percentile"))
    )


_OVERVIEW = Row(
    "Overview",
    (
        Panel(
            "Workers that process",
            _COUNT,
            (Query(_sum("ready"), "{{job}}"),),
            "Workers whose /readyz is 200. If some are missing: CoversummWorkerGone, "
            "CoversummNotReady.",
            4,
            "stat",
        ),
        Panel(
            "Partitions without a worker",
            _COUNT,
            (
                Query(
                    f"max by (job) (coversumm_input_partitions{{{_OF}}}) - {_sum('partitions')}",
                    "{{job}}",
                ),
            ),
            "More than 0 for longer than a rebalance: CoversummPartitionsUnprocessed.",
            4,
            "stat",
        ),
        Panel(
            "Records behind",
            _COUNT,
            (Query(_sum("lag_records"), "{{job}}"),),
            "The lag of all partitions.",
            4,
            "stat",
        ),
        Panel(
            "Events per second",
            _PER_SECOND,
            (Query(_rate("events_total"), ""),),
            "Committed events.",
            4,
            "stat",
        ),
        Panel(
            "Dead letters per hour",
            _COUNT,
            (Query(f"sum (increase(coversumm_dead_letters_total{{{_OF}}}[1h]))", ""),),
            "Records that were not applied: `coversumm-worker dlq list` says why.",
            4,
            "stat",
        ),
        Panel(
            "Builds",
            _COUNT,
            (
                Query(
                    f"count by (version, python) (coversumm_build_info{{{_OF}}})",
                    "{{version}} on {{python}}",
                ),
                Query(
                    f"count_values ('native', coversumm_native{{{_OF}}})", "native code {{native}}"
                ),
            ),
            "Workers by version: two versions during a rolling update. Native code 1: it takes "
            "usual events; 0: Python takes all.",
            4,
            "stat",
        ),
    ),
)

_TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Events by type",
            _PER_SECOND,
            (Query(_rate("events_total", by="type"), "{{type}}"),),
            "Records of committed micro-batches.",
            kind="stacked",
        ),
        Panel(
            "Published",
            _PER_SECOND,
            (
                Query(_rate("summary_changes_total"), "summary changes"),
                Query(_rate("facets_changes_total"), "changes of facets"),
                Query(_rate("tombstones_total"), "tombstones"),
            ),
            "Fewer than events: a summary is published only if its set changed, facets only if one "
            "of them did.",
        ),
        Panel(
            "Events per micro-batch",
            _COUNT,
            (
                Query(f"{_rate('batch_events_sum')} / {_rate('batch_events_count')}", "mean"),
                Query(
                    f"histogram_quantile(0.99, {_rate('batch_events_bucket', by='le')})",
                    "99th percentile",
                ),
            ),
            "Grows with the lag: a worker that is behind reads more at once.",
        ),
    ),
)

_LAG = Row(
    "Lag",
    (
        Panel(
            "Lag by partition",
            _COUNT,
            (Query(_sum("lag_records", by="partition"), "partition {{partition}}"),),
            "Records up to the last stable offset that are not committed.",
            6,
            "stacked",
        ),
        Panel(
            "Wait of the oldest record",
            "s",
            (
                Query(
                    f"max by (topic, partition) (coversumm_oldest_unprocessed_seconds{{{_OF}}})",
                    "{{topic}} {{partition}}",
                ),
            ),
            "How long the first record that is not committed waits, by its timestamp. It shows a "
            "slow topic that is far behind with few records.",
            6,
        ),
        Panel(
            "Held back by open transactions",
            _COUNT,
            (
                Query(
                    f"max by (partition) (coversumm_upstream_open_transaction_records{{{_OF}}})",
                    "partition {{partition}}",
                ),
            ),
            "Records behind an open transaction of a producer. If it only grows: "
            "CoversummUpstreamTransactionOpen.",
            6,
        ),
        Panel(
            "Silence of the brokers",
            "s",
            (
                Query(f"max by (client) (coversumm_broker_silent_seconds{{{_OF}}})", "{{client}}"),
                Query(f"max (coversumm_login_refused{{{_OF}}})", "login refused"),
            ),
            "Seconds since any broker last answered a client. Above 30 s: CoversummNoBroker. "
            "Login refused is 1 while brokers refuse credentials.",
            6,
        ),
    ),
)

_LATENCY = Row(
    "Latency",
    (
        Panel(
            "Processing a micro-batch",
            "s",
            _seconds("process_seconds"),
            "Decode, plan, embed, rank, rows.",
        ),
        Panel(
            "Committing it", "s", _seconds("commit_seconds"), "The Kafka transaction, then RocksDB."
        ),
        Panel(
            "Embedding its new sentences",
            "s",
            _seconds("embed_seconds"),
            "Part of the processing; empty if events bring their embeddings.",
        ),
        Panel(
            "Sentences embedded",
            _PER_SECOND,
            (
                Query(_rate("embedded_sentences_total"), "sentences"),
                Query(
                    _rate("model_languages_sentences_total", by="declared"),
                    "new, in a language of the model: {{declared}}",
                ),
            ),
            "Sentences that the engine embedded: not in the event, and not in the vector store. "
            "New ones by whether the model declares the language of their review.",
            12,
        ),
        Panel(
            "Commits in doubt",
            _PER_SECOND,
            (Query(_rate("commits_in_doubt_total", by="outcome"), "{{outcome}}"),),
            "Commits that no broker confirmed, by what the worker determined.",
            12,
        ),
    ),
)

_DEAD_LETTERS = Row(
    "Dead letters",
    (
        Panel(
            "Dead letters by reason",
            _PER_SECOND,
            (Query(f"{_rate('dead_letters_total', by='reason')} > 0", "{{reason}}"),),
            "Should be empty. The runbook explains each reason.",
            12,
            "stacked",
        ),
        Panel(
            "Ignored by reason, or read with U+FFFD or without its date",
            _PER_SECOND,
            (
                Query(
                    _rate("events_total", by="outcome", of=f'{_OF}, outcome=~"ignored:.+"'),
                    "{{outcome}}",
                ),
                Query(_rate("lone_surrogates_total"), "half of an emoji"),
                Query(_rate("future_dates_total"), "date of the future"),
            ),
            "Late versions, unknown entities, events that were applied before; and records of "
            "which U+FFFD stands for a character, or whose date is of the future.",
            12,
            "stacked",
        ),
    ),
)

_CERTIFICATE = Row(
    "Certificate and refills",
    (
        Panel(
            "Steps by what decided them",
            _PER_SECOND,
            (Query(_rate("steps_total", by="decided_by"), "{{decided_by}}"),),
            "The reservoir proves a step; a refill is the slow way.",
            kind="stacked",
        ),
        Panel(
            "Share of steps that refill",
            "percentunit",
            (Query(f"{_rate('refills_total')} / {_rate('steps_total')}", "refills per step"),),
            "Above 5 % for half an hour: CoversummRefillsOften.",
        ),
        Panel(
            "Work of the ranking",
            _PER_SECOND,
            (
                Query(_rate("refill_sentences_total"), "sentences searched by refills"),
                Query(_rate("evaluations_total"), "reservoirs ranked completely"),
            ),
            "The cost of a refill grows with the sentences of its entity.",
        ),
    ),
)

_CACHE = Row(
    "Cache",
    (
        Panel(
            "Memory of entities in use",
            "bytes",
            (Query(_sum("cache_bytes", by="instance"), "{{instance}}"),),
            "Bounded by COVERSUMM_CACHE_BYTES.",
        ),
        Panel(
            "Entities in use",
            _COUNT,
            (Query(_sum("cache_entities", by="instance"), "{{instance}}"),),
            "Entities in memory.",
        ),
        Panel(
            "Evictions",
            _PER_SECOND,
            (Query(_rate("limit_hits_total", of=f'{_OF}, limit="cache_bytes"'), "entities"),),
            "Evicted entities are read from disk at their next event.",
        ),
    ),
)

_ROCKSDB = Row(
    "RocksDB and process",
    (
        Panel(
            "Memory of the databases",
            "bytes",
            (Query(_sum("rocksdb_bytes", by="instance"), "{{instance}}"),),
            "Blocks, indexes, filters, write buffers; bounded by COVERSUMM_ROCKSDB_BYTES.",
        ),
        Panel(
            "Resident memory",
            "bytes",
            (Query(f"process_resident_memory_bytes{{{_OF}}}", "{{instance}}"),),
            "The complete process, including cache and databases.",
        ),
        Panel(
            "CPU",
            "percentunit",
            (Query(f"rate(process_cpu_seconds_total{{{_OF}}}{_WINDOW})", "{{instance}}"),),
            "100 % is one core. A worker ranks in one thread; RocksDB and the embedder have their "
            "own.",
        ),
        Panel(
            "Data volume in use",
            "percentunit",
            (
                Query(
                    f"1 - coversumm_data_volume_free_bytes{{{_OF}}} "
                    f"/ coversumm_data_volume_size_bytes{{{_OF}}}",
                    "{{instance}}",
                ),
            ),
            "A full volume ends the worker.",
            12,
        ),
        Panel(
            "Time until credentials expire",
            "s",
            tuple(
                Query(
                    f"min by ({label}) (coversumm_{what}_expiry_seconds{{{_OF}}}) - time()",
                    f"{{{{{label}}}}}",
                )
                for what, label in (("certificate", "file"), ("token", "mechanism"))
            ),
            "The files of certificates, and the token for Kafka, which workers renew themselves. "
            "Empty without either.",
            12,
        ),
    ),
)

_RESTORE = Row(
    "Restore",
    (
        Panel(
            "Ready",
            _COUNT,
            (Query(f"min by (instance) (coversumm_ready{{{_OF}}})", "{{instance}}"),),
            "0 while a worker starts, restores or waits for the group.",
        ),
        Panel(
            "Restore",
            _COUNT,
            (
                Query(_sum("restore_rows", by="instance"), "{{instance}} rows read"),
                Query(_sum("restore_remaining", by="instance"), "{{instance}} offsets to go"),
            ),
            "The last restore; 0 offsets to go means that it is complete.",
        ),
        Panel(
            "Starts per hour",
            _COUNT,
            (Query(f"changes(process_start_time_seconds{{{_OF}}}[1h])", "{{instance}}"),),
            "Three in 15 minutes: CoversummRestarting.",
        ),
    ),
)

_LIMITS = Row(
    "Limits",
    (
        Panel(
            "Limits that were hit",
            _PER_SECOND,
            (Query(f"{_rate('limit_hits_total', by='limit')} > 0", "{{limit}}"),),
            "The table of limits explains each. Most are normal: micro-batches are cut, entities "
            "evicted.",
            24,
        ),
    ),
)

_HITS = _rate("vector_store_lookups_total", of=f'{_OF}, result="hit"')
_VECTOR_STORE = Row(
    "Vector store",
    (
        Panel(
            "Lookups",
            _PER_SECOND,
            (Query(_rate("vector_store_lookups_total", by="result"), "{{result}}"),),
            "Distinct new texts; a miss is embedded. Empty without COVERSUMM_VECTOR_STORE_DIR.",
            kind="stacked",
        ),
        Panel(
            "Found",
            "percentunit",
            (Query(f"{_HITS} / {_rate('vector_store_lookups_total')}", "of all lookups"),),
            "Share of texts that were not embedded again.",
        ),
        Panel(
            "On disk",
            "bytes",
            (Query(f"max by (job) (coversumm_vector_store_bytes{{{_OF}}})", "{{job}}"),),
            "Bounded by COVERSUMM_VECTOR_STORE_BYTES; workers of a machine share it.",
        ),
    ),
)

_TO_GO = f"sum by (job) (coversumm_lag_records{{{_OF_REPLAY}}})"
_REPLAYED = _rate("events_total", by="job", of=_OF_REPLAY)
_REPLAY = Row(
    "Replay",
    (
        Panel(
            "Replayed",
            _PER_SECOND,
            (Query(_REPLAYED, "{{job}}"),),
            "Committed events of the replay.",
        ),
        Panel(
            "Records to go",
            _COUNT,
            (Query(_TO_GO, "{{job}}"),),
            "Records up to the ends that were fixed at its start.",
        ),
        Panel(
            "Time to go",
            "s",
            (Query(f"{_TO_GO} / ({_REPLAYED} > 0)", "{{job}}"),),
            "Estimated from the rate of the last minutes.",
        ),
    ),
)

ROWS: Final = (
    _OVERVIEW,
    _TRAFFIC,
    _LAG,
    _LATENCY,
    _DEAD_LETTERS,
    _CERTIFICATE,
    _CACHE,
    _ROCKSDB,
    _RESTORE,
    _LIMITS,
    _VECTOR_STORE,
    _REPLAY,
)
