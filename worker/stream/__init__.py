"""The stream: Faust around a worker that would do without it.

application  the Faust app: its settings, table and agent       process   the process that runs it:
loop, signals, exit code consumer     fetches, guarded by a cursor for each partition    table
rebalances, recoveries, and the databases' files takeover     from an assignment to partitions
processed         gate      the one way into a partition's database delivery     a micro-batch
through processor and commit         commit    transaction, local rows, caches assignment   what the
group has assigned                        worker    these parts, as `worker.app` puts them together
status       readiness, lag, owners                             watchdog  ends a worker that stands
still summaries    for whoever asks, beside the stream                group_fingerprint  refuses
workers with other settings contact_watch  asks for brokers while nothing happens
client_log, faust_log  what they say that is no news settlement   a commit in doubt, decided and
gone on from journal, dead_letters  what the log tells of a worker's life    surroundings, fatal
what is outside of a worker, and its end
"""
