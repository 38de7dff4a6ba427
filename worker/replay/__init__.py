"""A replay: a bounded run of the worker over history, under a name of its own, beside the live one.

request   what is asked for, and what a replay has of its own
plan      what was asked for, and from where to where, fixed once for all processes and restarts
ledger    what was done so far
throttle  how fast
run       all of it together: the course of the worker that does it
bodies    what was published, for a file
"""
