"""A micro-batch of events into rows and messages: no broker and no database; the clock only times
the work for metrics.

`processor` takes a micro-batch through its parts: `plan` applies the contract's rules to events and
stored rows; `embed` gives every new sentence its vector; `publish` ranks and makes messages;
`row_writer` makes rows. `load` counts what that comes to and cuts it, `pace` cuts it by the time it
is likely to take. In memory between micro-batches: `partitions`, and `entities` over
`entity_cache`. `summaries` has the committed summary of each entity for other threads, `summary`
makes one. `stats` is what metrics are told, `config` all that depends on settings. `in_memory` is
all of it without Kafka and RocksDB.
"""
