"""A replay: a bounded run of the worker over history, under its own name, beside the live worker.

- `request`: what to replay, and the settings of the replay's worker.
- `record_source`: history in files; `archive_check`: whether it is of its topic, and what it lacks.
- `ranges`: the offsets to read.
- `plan`: request and ranges, fixed once for all processes and restarts.
- `ledger`: what was done so far.
- `run`: one replay; whether a live worker may continue from it.
- `process`: its worker, to the end; `report` and `file`: what comes of it.
- `estimate`: how long it will take.
- `promotion`: whether consumers may switch to its output.
"""
