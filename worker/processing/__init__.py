"""A micro-batch of events into rows and messages: no broker and no database; the clock only times the work for metrics.

`processor` takes a micro-batch through its parts: `plan` applies the contract's rules to events and stored rows; `embed`
gives every new sentence its vector; `publish` ranks and makes messages; `row_writer` makes rows. `load` counts what that
comes to and cuts it. In memory between micro-batches: `partitions`, and `entities` over `entity_cache`. `summary` reads
an entity out of memory, `stats` is what metrics are told, `config` all that depends on settings.
"""
