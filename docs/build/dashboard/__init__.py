"""The Grafana dashboard, made by code.

`panels.py` says what it shows, `grafana.py` makes `deploy/chart/files/dashboard.json` of it, and
`picture.py` draws the same panels from the data of a real Prometheus.
"""
