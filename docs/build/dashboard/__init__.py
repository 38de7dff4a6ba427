"""The Grafana dashboard, made by code.

`panels.py` says what it shows, `grafana.py` makes `deploy/dashboard.json` of it, `picture.py` draws
the same panels from the data of a real Prometheus.
"""
