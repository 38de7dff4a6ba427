"""The documentation as a site: `make site`. These modules run in a venv of their own and import
nothing of the worker.
"""
