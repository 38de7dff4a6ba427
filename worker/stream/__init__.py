"""The stream: from the consumer group's assignment to committed summaries.

Start at `delivery`, which describes the commit protocol.

assignment, takeover, gate            what is held, how it is taken over, how rows are written
bounded_reader                        which records a run with an end fetches next
delivery, commit, settlement          processing and commit of a micro-batch, and commits in doubt
run_bounds                            a run that ends
group_fingerprint                     refuses workers with other settings
queries, rate_limit, feed             views and recent changes for readers beside the stream
status, watchdog, journal             reports about the worker
worker, surroundings                  its parts, and everything outside of it, also traces
faust                                 the adapters to Faust and aiokafka
"""
