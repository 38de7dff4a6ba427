"""What is generated: the tables between `<!-- name -->` marks in the pages, the JSON Schemas, and
the Helm chart's files.

python -m docs.build            exit code 1 where a file is not what the code and the records say
python -m docs.build --write    renew all of them
"""
