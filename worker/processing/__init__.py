"""A micro-batch of events into rows and messages, without broker, database, or wall clock in
results.

`processor` runs the steps: `plan` applies the contract's rules to events and stored rows and makes
`changes`, `embed` fills in vectors, `publish` ranks and fills the `outbox` with messages,
`changed_rows` makes rows, and `pace` limits size and time. `partitions` and `entities` last longer
than a micro-batch. An entity is a list of `tracked_sets`: its summary, and its `facets`.
`entity_view`, `ask` and `trend` read committed rows for queries. `stats` feeds the metrics,
`config` has what comes from settings, `in_memory` runs everything without Kafka and RocksDB.
"""
