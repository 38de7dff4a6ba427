"""Generates the tables between `<!-- name -->` marks in the pages, the JSON Schemas, the dashboard
and the Helm chart's files.

    python -m docs.build            exit code 1 if a file differs from the code and the records
    python -m docs.build --write    renew all of them
"""
