"""A replay: a bounded run of the worker over history, under its own name, beside the live worker.

- `request`: what to replay, and the settings of the replay's worker.
- `record_source`, `filled_archive`: history in files.
- `ranges`: the offsets to read.
- `plan`: request and ranges, fixed once for all processes and restarts.
- `ledger`: what was done so far.
- `run`: one process of a replay.
- `estimate`: how long it will take.
- `resume`: continues as a live worker, or starts over.
- `promotion`: whether consumers may switch to its output.
"""
