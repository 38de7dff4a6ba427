"""Metrics, traces and logs of a worker."""
