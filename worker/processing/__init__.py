"""A micro-batch of events into rows and messages, without broker, database, or wall clock in
results.

`processor` runs the steps: `plan` applies the contract's rules to events and stored rows and makes
`changes`, `embed` fills in vectors, `publish` ranks and fills the `outbox` with messages,
`partitions` makes rows, and `pace` limits size and time. `partitions`, and `entities` over
`entity_cache`, last longer than a micro-batch.
`entity_view` and `summaries` serve committed state to other threads. `stats` feeds the
metrics, `config` holds what comes from settings, `in_memory` runs everything without Kafka and
RocksDB.
"""
