"""What the tools of the command line do, apart from arguments and tables (those are in
`worker.cli`).

Summaries: `published` reads what a topic or a file holds of them (`places` tells which of the two a
name is), `history` takes one entity's apart, `comparison` holds two builds against each other.
Topics: `dead_letters` understands the messages that `worker.kafka.reader` reads, `watching` waits
for new ones. `sent` is the memory of `dlq send`, `originals` finds what is to be sent, `resend`
sends it. `reset` throws state away, `reset_warnings` says what a new start would meet. `access`
asks what the broker has and allows. Files: `files` reads reviews and events, `summarizing`
processes them without Kafka, `sender` sends them. Databases: `verification` and `reviews` read them
as `worker.storage.snapshot` opens them, beside the worker; `copies` says what they are copies of.
Running workers: `pages` asks one, `group_status` the whole group, `entities` either of them or the
databases.
"""
