"""The tests mirror `worker/`; `kafka/` and `bench/` come on top. A package, so that suites share
their helpers.
"""
